"""The smoke test of packages: inserts a row, says who is beneath and how many rows there are, and dies if told to."""

import os
import sqlite3
import sys

db = sqlite3.connect("app.db", isolation_level=None)
db.execute("CREATE TABLE IF NOT EXISTS t(x)")
db.execute("INSERT INTO t VALUES (1)")
print(*db.execute("PRAGMA litefoot_version").fetchone() or ["stock"])
print(*db.execute("SELECT count(*) FROM t").fetchone(), flush=True)
if sys.argv[1:] == ["kill"]:
    os.kill(os.getpid(), 9)
