"""Patterns in plain SQL, by the module `sqlite3` of Python's own library."""

import json
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


class TenRows(Kept):
    """Ten rows, and entries all over an index."""

    def commit(self, number):
        self.db.execute("BEGIN IMMEDIATE")
        for _ in range(10):
            super().commit(number)
        self.db.execute("COMMIT")


class Rails(Plain):
    """What Active Record makes of `Order.create!` with a counter cache: its SQL, and its settings but the journal's."""

    schema = """
        CREATE TABLE "customers" ("id" integer PRIMARY KEY AUTOINCREMENT NOT NULL, "email" varchar NOT NULL,
            "orders_count" integer DEFAULT 0 NOT NULL, "created_at" datetime(6) NOT NULL, "updated_at" datetime(6) NOT NULL);
        CREATE UNIQUE INDEX "index_customers_on_email" ON "customers" ("email");
        CREATE TABLE "orders" ("id" integer PRIMARY KEY AUTOINCREMENT NOT NULL, "customer_id" integer NOT NULL,
            "number" varchar NOT NULL, "total" decimal(10,2), "created_at" datetime(6) NOT NULL,
            "updated_at" datetime(6) NOT NULL,
            CONSTRAINT "fk_rails_3dad120da9" FOREIGN KEY ("customer_id") REFERENCES "customers" ("id"));
        CREATE INDEX "index_orders_on_customer_id" ON "orders" ("customer_id");
        CREATE UNIQUE INDEX "index_orders_on_number" ON "orders" ("number");
    """
    customers = 200

    def __init__(self, *arguments):
        super().__init__(*arguments)
        for pragma in ("foreign_keys = ON", "mmap_size = 134217728", "journal_size_limit = 67108864", "cache_size = 2000"):
            self.db.execute(f"PRAGMA {pragma}")
        self.db.execute("BEGIN IMMEDIATE")
        for number in range(self.customers):
            at = self.at(number)
            row = (f"{self.word()}@example.org", at, at)
            self.db.execute("INSERT INTO customers (email, created_at, updated_at) VALUES (?, ?, ?)", row)
        self.db.execute("COMMIT")

    def at(self, number):
        return f"2026-03-{number // 86400 % 28 + 1:02} {number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}.{self.random.randrange(10**6):06}"

    def commit(self, number):
        customer, at = self.random.randrange(self.customers) + 1, self.at(number)
        self.db.execute("BEGIN IMMEDIATE TRANSACTION")
        row = (customer, self.word(), round(self.random.uniform(1, 500), 2), at, at)
        created = self.db.execute(
            'INSERT INTO "orders" ("customer_id", "number", "total", "created_at", "updated_at") '
            'VALUES (?, ?, ?, ?, ?) RETURNING "id"',
            row,
        )
        created.fetchall()
        self.db.execute(
            'UPDATE "customers" SET "orders_count" = COALESCE("orders_count", 0) + 1, "updated_at" = ? '
            'WHERE "customers"."id" = ?',
            (at, customer),
        )
        self.db.execute("COMMIT TRANSACTION")


class Recorder(Plain):
    """Home Assistant's recorder: the states of some seconds, five rows into a table with five indexes."""

    schema = """
        CREATE TABLE states(state_id INTEGER NOT NULL PRIMARY KEY, entity_id CHAR(0), state VARCHAR(255), attributes CHAR(0),
            event_id SMALLINT, last_changed CHAR(0), last_changed_ts FLOAT, last_reported_ts FLOAT, last_updated CHAR(0),
            last_updated_ts FLOAT, old_state_id INTEGER REFERENCES states(state_id), attributes_id INTEGER,
            context_id CHAR(0), context_user_id CHAR(0), context_parent_id CHAR(0), origin_idx SMALLINT, context_id_bin BLOB,
            context_user_id_bin BLOB, context_parent_id_bin BLOB, metadata_id INTEGER);
        CREATE INDEX ix_states_metadata_id_last_updated_ts ON states(metadata_id, last_updated_ts);
        CREATE INDEX ix_states_last_updated_ts ON states(last_updated_ts);
        CREATE INDEX ix_states_context_id_bin ON states(context_id_bin);
        CREATE INDEX ix_states_attributes_id ON states(attributes_id);
        CREATE INDEX ix_states_old_state_id ON states(old_state_id);
    """

    def __init__(self, *arguments):
        super().__init__(*arguments)
        # The last state of each of 60 entities.
        self.last = {}

    def commit(self, number):
        at = 1772323200 + 5 * number
        self.db.execute("BEGIN")
        for turn in range(5):
            entity = self.random.randrange(60)
            # An identifier of Home Assistant's: six bytes of time, ten at random.
            context = (1000 * at + turn).to_bytes(6, "big") + self.random.randbytes(10)
            row = (f"{self.random.uniform(0, 100):.1f}", at + turn / 10, self.last.get(entity), entity % 12 + 1, 0, context, entity)
            added = self.db.execute(
                "INSERT INTO states(state, last_updated_ts, old_state_id, attributes_id, origin_idx, context_id_bin, metadata_id) "
                "VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING state_id",
                row,
            )
            ((self.last[entity],),) = added.fetchall()
        self.db.execute("COMMIT")


class FullText(Plain):
    """A document of twenty words into an index of its words."""

    schema = "CREATE VIRTUAL TABLE document USING fts5(title, body)"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.words = [self.word()[:7] for _ in range(5000)]

    def text(self, words):
        # Few words are frequent, as in any language.
        return " ".join(self.words[int(len(self.words) * self.random.random() ** 3)] for _ in range(words))

    def commit(self, number):
        self.db.execute("INSERT INTO document(title, body) VALUES (?, ?)", (self.text(3), self.text(17)))


class Documents(Plain):
    """A document store: one of 500 JSON documents of 1.5 KB gets other values."""

    schema = """
        CREATE TABLE document(id TEXT PRIMARY KEY, body TEXT NOT NULL);
        CREATE INDEX document_owner ON document(json_extract(body, '$.owner'));
    """
    documents = 500

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.names = [self.word() for _ in range(self.documents)]
        self.db.execute("BEGIN")
        for name in self.names:
            self.db.execute("INSERT INTO document VALUES (?, ?)", (name, self.body()))
        self.db.execute("COMMIT")

    def body(self):
        values = {f"field{number}": self.word() for number in range(55)}
        return json.dumps({"owner": self.word(), "revision": self.random.randrange(1000), **values})

    def commit(self, number):
        row = (self.body(), self.random.choice(self.names))
        self.db.execute("UPDATE document SET body = json(?) WHERE id = ?", row)


class Queue(Plain):
    """Jobs: one comes, then the oldest is taken and removed; some hundred wait."""

    schema = """
        CREATE TABLE job(id INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL, run_at INTEGER NOT NULL, payload TEXT);
        CREATE INDEX job_due ON job(queue, run_at);
    """
    waiting = 300

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.db.execute("BEGIN")
        for number in range(self.waiting):
            self.put(number)
        self.db.execute("COMMIT")

    def put(self, number):
        row = (1772323200 + number, json.dumps({"mail": self.word(), "template": number % 7}))
        self.db.execute("INSERT INTO job(queue, run_at, payload) VALUES ('mail', ?, ?)", row)

    def commit(self, number):
        if number % 2 == 0:
            self.put(self.waiting + number)
            return
        taken = self.db.execute(
            "DELETE FROM job WHERE id = (SELECT id FROM job WHERE queue = 'mail' ORDER BY run_at, id LIMIT 1) "
            "RETURNING id, payload"
        )
        taken.fetchall()


PATTERNS = {
    "python_kept": Kept,
    "python_per_connection": PerConnection,
    "ten_rows": TenRows,
    "rails": Rails,
    "recorder": Recorder,
    "fts5": FullText,
    "json": Documents,
    "queue": Queue,
}

if __name__ == "__main__":
    protocol.main(PATTERNS)
