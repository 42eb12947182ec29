"""What the setups of `litefoot bench setups` share: servers and workers, clients, and what is told at the end.

    SETUP.py NAME SECONDS

A setup has its database in the current directory. Its servers and workers run on litefoot if SETUP_PRELOAD names the library; this
process, its clients and its cron jobs are on SQLite as it is. At the end it prints lines for the driver:

    requests N | seconds S | p99_ms MS | error COUNT TEXT | lost COUNT | check ok
"""

import atexit
import collections
import ctypes
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time

CLIENTS = 4
NAME, SECONDS = sys.argv[1], float(sys.argv[2])
HERE = os.path.dirname(os.path.abspath(__file__))
DATABASE = "app.db"
PLAIN = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


def descendants(root):
    """The processes below one, whatever session or group they have made for themselves."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as stat:
                parents[int(name)] = int(stat.read().rpartition(")")[2].split()[1])
        except OSError:
            pass
    found = [root]
    for process in found:
        found += [child for child, parent in parents.items() if parent == process]
    return found[1:]


def end_all():
    """Nothing stays, whatever has ended this process: servers start workers that leave their process group."""
    for _ in range(10):
        left = descendants(os.getpid())
        if not left:
            return
        for process in left:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            while True:
                os.waitpid(-1, 0)
        except ChildProcessError:
            pass


# Processes whose parents have ended are this one's (PR_SET_CHILD_SUBREAPER).
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
atexit.register(end_all)


def surroundings():
    """The environment of a server or worker: on litefoot, if that is the side."""
    environment = {**os.environ, "PYTHONPATH": HERE + os.pathsep + os.environ.get("PYTHONPATH", "")}
    if "SETUP_PRELOAD" in os.environ:
        environment["LD_PRELOAD"] = os.environ["SETUP_PRELOAD"]
    return environment


def start(*arguments, program=sys.executable, plain=False, **more):
    """A server or worker; if it is plain, on SQLite as it is. It leads a process group, so that none of its children stays."""
    with open("log", "ab") as log:
        streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, **more}
        environment = PLAIN if plain else surroundings()
        return subprocess.Popen([program, *arguments], env=environment, start_new_session=True, **streams)


def stop(process, by=signal.SIGTERM, all_of_it=False):
    """Ends a server: its first process tells the others, or all are told."""
    (os.killpg if all_of_it else os.kill)(process.pid, by)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        print("error 1 a server that does not end")
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def preloaded():
    """This process is a part of the application, and begins again where that is on litefoot."""
    if "SETUP_PRELOAD" in os.environ and "LD_PRELOAD" not in os.environ:
        os.environ["LD_PRELOAD"] = os.environ["SETUP_PRELOAD"]
        os.execv(sys.executable, [sys.executable, *sys.argv])


class Load:
    """Work by several clients, and a cron job, for so many seconds."""

    def __init__(self):
        self.took, self.errors, self.stored, self.lock = [], collections.Counter(), 0, threading.Lock()
        self.end = time.monotonic() + SECONDS

    def note(self, begun, error=None, stored=0):
        with self.lock:
            self.took.append(time.monotonic() - begun)
            self.stored += stored
            if error:
                self.errors[str(error).strip().replace("\n", " ")[-200:] or "no reason given"] += 1

    def repeat(self, turn, pause=0.0):
        number = 0
        while time.monotonic() < self.end:
            begun = time.monotonic()
            try:
                self.note(begun, stored=turn(number))
            except Exception as error:  # Whatever keeps a client from its answer is what is counted.
                self.note(begun, error)
            number += 1
            time.sleep(pause)

    def run(self, *turns):
        """Each turn in a thread of its own: a function, or one with its pause."""
        pairs = [turn if isinstance(turn, tuple) else (turn, 0.0) for turn in turns]
        threads = [threading.Thread(target=self.repeat, args=pair) for pair in pairs]
        begun = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.seconds = time.monotonic() - begun

    def gather(self, *commands, program=sys.executable):
        """Runs workers to their ends. Each prints a line for each of its turns: its seconds, or `error` and a message."""
        begun = time.monotonic()
        outputs = [(open(f"worker{number}", "w+"), open(f"complaints{number}", "w+")) for number in range(len(commands))]
        workers = [
            start(*command, program=program, stdout=output, stderr=complaints)
            for command, (output, complaints) in zip(commands, outputs)
        ]
        for worker, files in zip(workers, outputs):
            worker.wait()
            output, complaints = (file.seek(0) or file.read().splitlines() for file in files)
            turns = [float(line) for line in output if not line.startswith("error")]
            self.took += turns
            self.stored += len(turns)
            self.errors.update(line[len("error ") :][-200:] for line in output if line.startswith("error"))
            if worker.returncode:
                telling = [line for line in complaints if "Error" in line] or complaints[-1:] or ["no reason given"]
                self.errors[telling[-1][:200]] += 1
        self.seconds = time.monotonic() - begun

    def tell(self, table, database=DATABASE):
        """Once all servers have ended: what SQLite as it is finds."""
        took = sorted(self.took)
        print("requests", len(took))
        print("seconds", self.seconds)
        print("p99_ms", 1000 * took[int(len(took) * 0.99)] if took else 0)
        for text, count in (+self.errors).items():
            print("error", count, text)
        found, verdict = as_it_is(LOOK, database, f"SELECT count(*) FROM {table}").splitlines()[:2]
        print("lost", max(0, self.stored - int(found)))
        print("check", verdict)


LOOK = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=20)
print(db.execute(sys.argv[2]).fetchone()[0])
print(db.execute("PRAGMA integrity_check").fetchone()[0])
"""


def as_it_is(script, *arguments):
    """What a script of Python's says that is on SQLite as it is."""
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, env=PLAIN, check=True, stdout=subprocess.PIPE, text=True).stdout


class Unix(http.client.HTTPConnection):
    """HTTP over a socket file, so that no port is taken."""

    def __init__(self, path):
        super().__init__("localhost", timeout=30)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def ask(method, path, place="http.sock", body=None, headers=None):
    """An answer's text. `place` is a socket file, or a port."""
    connection = Unix(place) if isinstance(place, str) else http.client.HTTPConnection("localhost", place, timeout=30)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
    finally:
        connection.close()
    if answer.status not in (200, 303):
        raise RuntimeError(f"{answer.status} {text}")
    return text


def free_port():
    """A port for a server that takes no socket file."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def wait_for(path, place="http.sock"):
    end = time.monotonic() + 100
    while True:
        try:
            return ask("GET", path, place)
        except (OSError, RuntimeError, http.client.HTTPException):
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def requests(number):
    """Every second request stores a row."""
    if number % 2:
        ask("GET", "/last")
        return 0
    ask("POST", "/store")
    return 1


def shell(sql, database=DATABASE):
    """A cron job, without a busy timeout."""
    return visit("sqlite3", "-batch", "-bail", database, sql)


def visit(*command):
    """A program that comes and goes, on SQLite as it is."""
    done = subprocess.run(command, env=PLAIN, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stderr}")
    return done.stdout
