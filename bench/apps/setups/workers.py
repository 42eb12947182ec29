"""Programs that run four times and meet at one database: Jupyter's kernels, scripts in Perl, commits of Subversion."""

import os
import subprocess
import sys

import together

PERL = """
use strict; use DBI; use Time::HiRes qw(time);
my $db = DBI->connect("dbi:SQLite:dbname=app.db", "", "", { RaiseError => 1, PrintError => 0 });
$db->sqlite_busy_timeout(20000);
$| = 1;
my $end = time() + shift;
while ((my $begun = time()) < $end) {
    eval {
        $db->do("INSERT INTO entry(text) VALUES (hex(randomblob(50)))");
        $db->selectrow_array("SELECT max(id) FROM entry");
        print time() - $begun, "\\n";
        1;
    } or print "error $@";
}
"""

CELL = """
import sqlite3
db = sqlite3.connect("app.db", timeout=20, isolation_level=None)
db.execute("INSERT INTO entry(text) VALUES (hex(randomblob(50)))")
db.close()
"""

COMMITS = """
import os, subprocess, sys, time
number, end = sys.argv[1], time.monotonic() + float(sys.argv[2])
turn = 0
def svn(*words):
    done = subprocess.run(["svn", "--non-interactive", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    # What goes wrong with the repository's database is a warning behind a commit, which svn does not show with --quiet. The commit
    # counts then, and its row is not there: where several processes create the database at once, all but one may fail.
    _, warned, warning = done.stdout.partition("Warning: ")
    if done.returncode or done.stderr or warned:
        print("error", (done.stderr + warning).strip().replace("\\n", " "), flush=True)
    return not done.returncode and not warned
while time.monotonic() < end:
    begun = time.monotonic()
    path = f"copy{number}/file{number}_{turn}.txt"
    with open(path, "w") as file:
        file.write(os.urandom(200).hex())
    if svn("add", path) and svn("commit", "--message", "a file", path):
        print(time.monotonic() - begun, flush=True)
    turn += 1
"""


def create():
    together.shell("CREATE TABLE entry(id INTEGER PRIMARY KEY, text TEXT)")


def jupyter():
    """Each kernel runs cells that insert; IPython keeps the history of all in one database."""
    for name in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        os.environ[name] = os.path.abspath(name.lower())
        os.makedirs(os.environ[name])
    from jupyter_client.manager import KernelManager

    create()
    log = open("log", "a")
    kernels = [KernelManager(transport="ipc", ip=os.path.abspath(f"kernel{number}")) for number in range(4)]
    clients = []
    for kernel in kernels:
        kernel.start_kernel(env=together.surroundings(), stdout=log, stderr=log)
        client = kernel.blocking_client()
        client.start_channels()
        clients.append(client)

    def turns(client):
        def turn(_number):
            reply = client.execute_interactive(CELL, timeout=30, output_hook=lambda _message: None, store_history=True)
            if reply["content"]["status"] != "ok":
                raise RuntimeError(reply["content"]["evalue"])
            return 1

        return turn

    try:
        for client in clients:
            client.wait_for_ready(60)
        load = together.Load()
        load.run(*map(turns, clients))
    finally:
        for client, kernel in zip(clients, kernels):
            client.stop_channels()
            kernel.shutdown_kernel()
    history = os.path.join(os.environ["IPYTHONDIR"], "profile_default", "history.sqlite")
    lines = int(together.as_it_is(together.LOOK, history, "SELECT count(*) FROM history").split()[0])
    load.errors["a cell that the history does not have"] += max(0, load.stored - lines)
    load.tell("entry")


def perl():
    """A connection for each process, transactions of one statement."""
    create()
    load = together.Load()
    load.gather(*[("-e", PERL, str(together.SECONDS))] * 4, program="perl")
    load.tell("entry")


def svn():
    """Working copies of one repository: its index of contents is a database, and so is each working copy's."""
    subprocess.run(["svnadmin", "create", "repository"], check=True, env=together.PLAIN)
    url = "file://" + os.path.abspath("repository")
    for number in range(4):
        together.visit("svn", "--quiet", "checkout", url, f"copy{number}")
    load = together.Load()
    load.gather(*[("-c", COMMITS, str(number), str(together.SECONDS)) for number in range(4)])
    load.tell("rep_cache", "repository/db/rep-cache.db")


if __name__ == "__main__":
    {"jupyter": jupyter, "perl": perl, "svn": svn}[together.NAME]()
