"""Inserts 1, 2, 3, … one transaction each, and prints each number once its commit has returned."""

import sqlite3
import sys

path, journal_mode = sys.argv[1:]
db = sqlite3.connect(path, isolation_level=None)
db.execute(f"PRAGMA journal_mode={journal_mode}")
db.execute("CREATE TABLE number(n INTEGER PRIMARY KEY, filler TEXT)")
for n in range(1, 1_000_000):
    db.execute("INSERT INTO number VALUES (?, ?)", (n, "x" * 200))
    print(n, flush=True)
