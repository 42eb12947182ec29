"""Does 100 small durable transactions and prints the memory that it has then: resident kilobytes, but for litefoot's code."""

import sqlite3
import sys

name, mode = sys.argv[1:]
db = sqlite3.connect(name, isolation_level=None)
db.execute(f"PRAGMA journal_mode = {mode}")
db.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
for number in range(100):
    db.execute("INSERT INTO t(b) VALUES (zeroblob(?))", (100 + number,))
version = db.execute("PRAGMA litefoot_version").fetchone()


def resident_kb():
    """The sum of all mappings. How much of a library's code is resident depends on what the system has cached of its file."""
    total = is_code = 0
    with open("/proc/self/smaps") as smaps:
        for line in smaps:
            words = line.split()
            if not words[0].endswith(":"):
                is_code = words[1].startswith("r-x") and words[-1].endswith("liblitefoot.so")
            elif words[0] == "Rss:" and not is_code:
                total += int(words[1])
    return total


print("litefoot" if version else "stock", resident_kb())
db.close()
