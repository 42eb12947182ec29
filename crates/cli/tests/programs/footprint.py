"""Does 100 small durable transactions and prints the memory that it has then: resident kilobytes."""

import sqlite3
import sys

name, mode = sys.argv[1:]
db = sqlite3.connect(name, isolation_level=None)
db.execute(f"PRAGMA journal_mode = {mode}")
db.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
for number in range(100):
    db.execute("INSERT INTO t(b) VALUES (zeroblob(?))", (100 + number,))
version = db.execute("PRAGMA litefoot_version").fetchone()
with open("/proc/self/status") as status:
    print("litefoot" if version else "stock", next(line.split()[1] for line in status if line.startswith("VmRSS:")))
db.close()
