"""Memory runs out below a connection, at one place after the other: no process ends, no commit is lost, and the same
connection goes on once there is memory again.

Usage: memory.py DIRECTORY JOURNAL_MODE all|once STRIDE. Needs refuse.c. The places are further apart the later they
are, by one in STRIDE; STRIDE 0 takes every one. Prints how many there were and what went wrong.
"""

import ctypes
import os
import signal
import sqlite3
import sys

directory, mode, what, stride = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
ROWS = 30
NOT_REACHED = 77

refuse = ctypes.CDLL(None)
assert refuse.refuse_from(0, 0), "liblitefoot.so is not loaded"


def work(path, place):
    """Answers how the child of a place ends."""
    db = sqlite3.connect(path, isolation_level=None)
    assert db.execute(f"PRAGMA journal_mode={mode}").fetchone()[0] == mode
    db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
    db.execute("INSERT INTO t VALUES (0, 0)")
    other = sqlite3.connect(path, isolation_level=None)
    acknowledged, failures = {0}, 0
    refuse.refuse_from(place, what == "all")
    for row in range(1, ROWS):
        size = 200_000 if row % 10 == 9 else 50
        try:
            db.execute("INSERT INTO t VALUES (?, randomblob(?))", (row, size))
            acknowledged.add(row)
        except (sqlite3.Error, MemoryError):
            failures += 1
        try:
            if row % 5 == 0:
                shown = {found for (found,) in other.execute("SELECT id FROM t")}
                assert shown >= acknowledged, f"shown {shown}, acknowledged {acknowledged}"
            if row % 7 == 0:
                db.execute("BEGIN").execute("UPDATE t SET v = id").execute("ROLLBACK")
            if row == 20:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except (sqlite3.Error, MemoryError):
            failures += 1
            if db.in_transaction:
                db.rollback()
    reached = refuse.refuse_count() >= place
    refuse.refuse_from(0, 0)
    for connection, row in [(db, ROWS), (other, ROWS + 1)]:
        connection.execute("INSERT INTO t VALUES (?, 1)", (row,))
        acknowledged.add(row)
    for connection in [db, other]:
        connection.close()
    db = sqlite3.connect(path)
    found = {row for (row,) in db.execute("SELECT id FROM t")}
    assert found >= acknowledged, f"found {found}, acknowledged {acknowledged}"
    assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    db.close()
    return 0 if reached else NOT_REACHED


def child(place):
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    signal.alarm(60)
    code = 1
    try:
        code = work(os.path.join(directory, f"{place}.db"), place)
    except BaseException as error:
        print(f"place {place}: {type(error).__name__}: {error}", flush=True)
    os._exit(code)


place, places, wrong = 1, 0, 0
while True:
    status = child(place)
    for end in ["", "-journal", "-wal", "-commits", "-shm"]:
        if os.path.exists(os.path.join(directory, f"{place}.db{end}")):
            os.remove(os.path.join(directory, f"{place}.db{end}"))
    if os.WIFSIGNALED(status):
        print(f"place {place}: ended by signal {os.WTERMSIG(status)}", flush=True)
        wrong += 1
    elif os.WEXITSTATUS(status) == NOT_REACHED:
        break
    else:
        wrong += os.WEXITSTATUS(status) != 0
    places += 1
    place += 1 + (place // stride if stride else 0)
print(f"places {places > 50} wrong {wrong}")
