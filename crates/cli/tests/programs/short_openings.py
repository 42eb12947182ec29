"""A connection for each commit: what lies beside the database between them, and who may come in between."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys

# The journal mode, and what is kept in it.
MODE = sys.argv[2] if len(sys.argv) > 2 else "WAL"
KEPT = {"WAL": "app.db-wal", "DELETE": "app.db-journal"}[MODE]


def commit(path="app.db", create=False, close=True):
    """One opening with one commit."""
    db = sqlite3.connect(path, isolation_level=None)
    if create:
        db.execute(f"PRAGMA journal_mode={MODE}")
        db.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
    db.execute("INSERT INTO t(b) VALUES(hex(randomblob(50)))")
    if close:
        db.close()
    return db


def rows(path="app.db"):
    db = sqlite3.connect(path)
    found = db.execute("SELECT count(*), (SELECT group_concat(integrity_check) FROM pragma_integrity_check) FROM t")
    row = found.fetchone()
    db.close()
    return row


def stock(sql, path="app.db"):
    """Another program, with SQLite as it is."""
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    return subprocess.run(["sqlite3", path, sql], env=environment, check=True, text=True, capture_output=True).stdout


def files():
    return " ".join(sorted(os.listdir(".")))


def begin():
    """Openings after which the log, or the journal, is kept."""
    commit(create=True)
    commit()
    assert files() == f"app.db {KEPT}", files()


def in_turns():
    begin()
    assert stock("SELECT count(*) FROM t; PRAGMA integrity_check") == "2\nok\n"
    print(files())
    commit()
    stock("INSERT INTO t(b) VALUES(1)")
    commit()
    commit()
    script = [sys.executable, __file__, "some"]
    subprocess.run(script, check=True)
    print(files())
    commit()
    subprocess.run(script, check=True)
    commit()
    print(rows(), files())


def rights():
    """The database is taken from everybody else; so is the log, once it has something of it."""
    os.umask(0)
    begin()
    os.chmod("app.db", 0o600)
    assert os.stat(KEPT).st_mode & 0o777 == 0o644, "the file of before"
    db = commit(close=False)
    print(oct(os.stat(KEPT).st_mode & 0o777))
    db.close()
    commit()
    print(rows())


def some():
    for _ in range(3):
        commit()


def many():
    begin()
    for _ in range(50):
        commit()
    print(rows())


def serve():
    """Another process, which opens the database for each line."""
    for _ in sys.stdin:
        commit()
        print("done", flush=True)


def two():
    begin()
    command = [sys.executable, __file__, "serve", MODE]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for number in range(20):
        print("commit", file=other.stdin, flush=True)
        assert other.stdout.readline() == "done\n"
        commit()
        if number == 10:
            stock("INSERT INTO t(b) VALUES(1)")
    print(files())
    other.communicate()
    print(files())
    commit()
    print(rows())


def directory_removed():
    for _ in range(2):
        os.mkdir("d")
        commit("d/app.db", create=True)
        commit("d/app.db")
        commit("d/app.db")
        print(rows("d/app.db"), sorted(os.listdir("d")))
        shutil.rmtree("d")


def killed():
    begin()
    commit()
    os.kill(os.getpid(), signal.SIGKILL)


def killed_within():
    begin()
    db = commit(close=False)
    assert rows()[0] == 3 and db
    os.kill(os.getpid(), signal.SIGKILL)


def forked():
    begin()
    if os.fork() == 0:
        commit()
        commit()
        sys.exit()
    os.wait()
    print(files())
    commit()
    commit()
    if os.fork() == 0:
        sys.exit()
    os.wait()
    print(files())
    commit()
    print(rows())


def moved():
    begin()
    shutil.copy("app.db", "copy.db")
    shutil.copy(KEPT, KEPT.replace("app", "copy"))
    commit("copy.db")
    print(rows("copy.db"), stock("PRAGMA integrity_check", "copy.db").strip())
    os.remove("copy.db")
    os.rename("app.db", "other.db")
    commit("other.db")
    print(rows("other.db"))
    commit("other.db")
    os.remove("other.db")
    open("other.db", "w").close()
    commit("other.db", create=True)
    print(rows("other.db"))
    commit("other.db")
    stock("CREATE TABLE t(a INTEGER PRIMARY KEY, b); INSERT INTO t VALUES(7, 7)", "new.db")
    os.replace("new.db", "other.db")
    commit("other.db")
    print(rows("other.db"), stock("PRAGMA integrity_check", "other.db").strip())


def modes():
    begin()
    db = sqlite3.connect("app.db", isolation_level=None)
    print(db.execute("PRAGMA journal_mode=DELETE").fetchone())
    db.execute("INSERT INTO t(b) VALUES(1)")
    print(db.execute("PRAGMA journal_mode").fetchone())
    db.close()
    print(rows(), files())
    db = sqlite3.connect("app.db", isolation_level=None)
    print(db.execute("PRAGMA journal_mode").fetchone())
    print(db.execute("PRAGMA journal_mode=WAL").fetchone())
    db.close()
    commit()
    commit()
    print(rows())


def read_only_directory():
    os.chmod(".", 0o777)
    if os.geteuid() == 0:
        os.setegid(65534)
        os.seteuid(65534)
    begin()
    os.seteuid(os.getuid())
    os.chmod(".", 0o555)
    if os.geteuid() == 0:
        os.seteuid(65534)
    commit()
    commit()
    print(rows())
    os.seteuid(os.getuid())
    os.chmod(".", 0o755)


globals()[sys.argv[1]]()
