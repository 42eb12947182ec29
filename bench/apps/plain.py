"""Patterns in plain SQL, by the module `sqlite3` of Python's own library."""

import random
import sqlite3

import protocol


class Plain(protocol.Workload):
    """One connection, which is kept."""

    schema = ""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.random = random.Random(1)
        self.db = self.open()
        self.db.executescript(self.schema)

    def open(self):
        # Transactions are written out, as most other libraries have them.
        db = sqlite3.connect(self.file, isolation_level=None)
        for pragma in self.pragmas:
            db.execute(pragma)
        return db

    def ask(self, question):
        return self.db.execute(question).fetchall()

    def close(self):
        self.db.close()

    def word(self):
        return f"{self.random.getrandbits(40):x}"


class Kept(Plain):
    """One row and its entry in an index that knows no order."""

    schema = """
        CREATE TABLE reading(id INTEGER PRIMARY KEY, sensor TEXT, at INTEGER, value REAL);
        CREATE INDEX reading_sensor ON reading(sensor);
    """

    def commit(self, number):
        row = (self.word(), 1772323200 + number, self.random.random())
        self.db.execute("INSERT INTO reading(sensor, at, value) VALUES (?, ?, ?)", row)


class PerConnection(Kept):
    """The same from a script that is started for each row."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.db.close()

    def commit(self, number):
        self.db = self.open()
        super().commit(number)
        self.sample(number)
        self.db.close()


PATTERNS = {"python_kept": Kept, "python_per_connection": PerConnection}

if __name__ == "__main__":
    protocol.main(PATTERNS)
