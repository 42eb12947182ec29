"""An ordinary program on Python's own sqlite3 module. It knows nothing of litefoot.

Usage: smoke.py DATABASE JOURNAL_MODE. Prints what the database holds at the end.
"""

import hashlib
import random
import sqlite3
import sys
import threading

path, journal_mode = sys.argv[1:]
numbers = random.Random(7)

db = sqlite3.connect(path)
mode = db.execute(f"PRAGMA journal_mode={journal_mode}").fetchone()[0]
assert mode == journal_mode, mode
db.executescript(
    """
    CREATE TABLE account(id INTEGER PRIMARY KEY, owner TEXT UNIQUE, balance REAL NOT NULL CHECK (balance >= 0));
    CREATE TABLE movement(id INTEGER PRIMARY KEY, debit REFERENCES account, credit REFERENCES account, amount REAL);
    CREATE TABLE document(name TEXT PRIMARY KEY, body BLOB) WITHOUT ROWID;
    CREATE INDEX movement_debit ON movement(debit);
    CREATE VIEW total AS SELECT sum(balance) AS balance FROM account;
    CREATE TRIGGER moved AFTER INSERT ON movement BEGIN
        UPDATE account SET balance = balance - new.amount WHERE id = new.debit;
        UPDATE account SET balance = balance + new.amount WHERE id = new.credit;
    END;
    CREATE VIRTUAL TABLE note USING fts5(text);
    """
)

# Transactions by context manager; some fail on a constraint and must leave no trace.
with db:
    db.executemany("INSERT INTO account(owner, balance) VALUES (?, ?)", [(f"owner {n}", 100.0) for n in range(50)])
refused = 0
for _ in range(400):
    debit, credit = numbers.sample(range(1, 51), 2)
    try:
        with db:
            db.execute(
                "INSERT INTO movement(debit, credit, amount) VALUES (?, ?, ?)",
                (debit, credit, numbers.randint(1, 90)),
            )
    except sqlite3.IntegrityError:
        refused += 1
assert refused > 0
assert db.execute("SELECT balance FROM total").fetchone() == (5000.0,)

# A rollback by hand, a savepoint, blobs of more than a page, full text, a big transaction that spills.
db.execute("DELETE FROM account")
db.rollback()
db.execute("BEGIN")
db.execute("SAVEPOINT here")
db.execute("DELETE FROM movement")
db.execute("ROLLBACK TO here")
for n in range(20):
    db.execute("INSERT INTO document VALUES (?, ?)", (f"document {n}", numbers.randbytes(n * 3000)))
db.executemany("INSERT INTO note VALUES (?)", [(f"word{n % 17} word{n % 5}",) for n in range(300)])
db.commit()
db.execute("PRAGMA cache_size=10")
with db:
    db.execute("UPDATE document SET body = CAST(body || zeroblob(50000) AS BLOB)")
with db:
    db.execute("DELETE FROM document WHERE name LIKE '%3'")
assert db.execute("SELECT count(*) FROM note WHERE note MATCH 'word3'").fetchone()[0] > 0

# A schema change, VACUUM, and a backup into another file.
db.execute("ALTER TABLE account ADD COLUMN note TEXT DEFAULT 'none'")
db.execute("VACUUM")
with sqlite3.connect(path + ".backup") as copy:
    db.backup(copy)
copy.close()

# Readers and a writer, each with a connection of its own.
failures = []


def read():
    try:
        mine = sqlite3.connect(path, timeout=30)
        for _ in range(30):
            assert mine.execute("SELECT balance FROM total").fetchone() == (5000.0,)
        mine.close()
    except Exception as error:
        failures.append(error)


def write():
    try:
        mine = sqlite3.connect(path, timeout=30)
        for n in range(60):
            with mine:
                mine.execute("INSERT INTO movement(debit, credit, amount) VALUES (?, ?, 0)", (n % 50 + 1, 1))
        mine.close()
    except Exception as error:
        failures.append(error)


threads = [threading.Thread(target=work) for work in (read, write, read)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failures, failures

assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
content = hashlib.sha256("\n".join(db.iterdump()).encode()).hexdigest()
print(content, db.execute("SELECT count(*) FROM movement").fetchone()[0])
db.close()
