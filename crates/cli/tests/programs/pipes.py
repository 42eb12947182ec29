"""Blocking writes to pipes, on a thread that has just read and closed a database: none may come back short.

Usage: pipes.py DATABASE. Prints how many of them did, in this process and in a forked child of it.
"""

import os
import sqlite3
import sys
import time

ROUNDS = 20
WHOLE = bytes(1 << 20)


def cool_down(path):
    """The next reads of the file go to the device, past all caches."""
    fd = os.open(path, os.O_RDONLY)
    os.fdatasync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def short_writes(path):
    short = 0
    for _ in range(ROUNDS):
        cool_down(path)
        db = sqlite3.connect(path)
        db.execute("SELECT sum(length(b)) FROM t").fetchall()
        db.close()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(writer)
            # Until then the writer blocks.
            time.sleep(0.002)
            while os.read(reader, 65536):
                pass
            os._exit(0)
        os.close(reader)
        short += os.write(writer, WHOLE) < len(WHOLE)
        os.close(writer)
        os.waitpid(child, 0)
    return short


path = sys.argv[1]
db = sqlite3.connect(path)
db.execute("CREATE TABLE t(b)")
db.executemany("INSERT INTO t VALUES (zeroblob(20000))", [()] * 100)
db.commit()
db.close()

here = short_writes(path)
child = os.fork()
if child == 0:
    os._exit(short_writes(path))
there = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(f"short: {here} {there}", flush=True)
