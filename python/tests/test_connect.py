"""connect, load and stats on a Python as it is."""

import os
import re
import sqlite3
import threading
import unittest
from pathlib import Path

from .support import REPOSITORY, InFolder

import litefoot


def fill(db):
    with db:
        db.execute("CREATE TABLE t(x)")
        db.execute("INSERT INTO t VALUES (1)")
    db.close()


class Connect(InFolder):
    def assert_stock_reads(self, path, rows):
        db = sqlite3.connect(path)
        self.assertEqual(db.execute("SELECT x FROM t ORDER BY x").fetchall(), rows)
        self.assertEqual(db.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
        db.close()

    def test_stock_sqlite_reads_what_was_written(self):
        for mode in ("delete", "wal"):
            path = self.path(f"{mode}.db")
            db = litefoot.connect(path)
            self.assertIs(type(db), sqlite3.Connection)
            self.assertEqual(db.execute(f"PRAGMA journal_mode = {mode}").fetchone(), (mode,))
            fill(db)
            db = litefoot.connect(path)
            with db:
                db.execute("INSERT INTO t VALUES (2)")
            db.close()
            self.assert_stock_reads(path, [(1,), (2,)])

    def test_options_of_sqlite3_are_passed_on(self):
        class Mine(sqlite3.Connection):
            pass

        db = litefoot.connect(
            self.path(),
            timeout=0.1,
            isolation_level=None,
            detect_types=sqlite3.PARSE_DECLTYPES,
            factory=Mine,
            check_same_thread=False,
            cached_statements=10,
        )
        self.assertIsInstance(db, Mine)
        self.assertIsNone(db.isolation_level)
        rows = []
        thread = threading.Thread(target=lambda: rows.extend(db.execute("SELECT 1")))
        thread.start()
        thread.join()
        self.assertEqual(rows, [(1,)])
        db.close()

    def test_the_package_knows_the_options_of_its_library(self):
        litefoot.load(sqlite3.connect(":memory:"))
        with self.assertRaises(sqlite3.OperationalError) as refused:
            sqlite3.connect(f"file:{self.path()}?vfs=litefoot&litefoot_no_option=1", uri=True).execute("SELECT 1")
        self.assertIn(f"litefoot knows {', '.join(litefoot.OPTIONS)};", str(refused.exception))

    def test_options_of_litefoot_arrive(self):
        log_path = self.path("n?v#r%41 m&=+.commits")
        db = litefoot.connect(
            self.path(), commit_log="statements", write_buffer_size="8M", commit_log_size=65536, sharing="exclusive", writer_timeout_ms=7, commit_log_path=Path(log_path), atomic="off"
        )
        self.assertEqual(db.execute("PRAGMA journal_mode = WAL").fetchone(), ("wal",))
        with db:
            db.execute("CREATE TABLE t(x)")
        with db:
            db.execute("INSERT INTO t VALUES (1)")
        self.assertEqual(litefoot.stats(db)["commits_statements"], 1)
        self.assertIn(os.path.basename(log_path), os.listdir(self.folder))
        db.close()

        db = litefoot.connect(self.path("shared.db"), sharing="passthrough")
        db.execute("CREATE TABLE t(x)")
        self.assertEqual(litefoot.stats(db), {})
        stock = sqlite3.connect(self.path("shared.db"))
        with stock:
            stock.execute("INSERT INTO t VALUES (1)")
        stock.close()
        self.assertEqual(db.execute("SELECT x FROM t").fetchall(), [(1,)])
        db.close()

    def test_stock_sqlite_comes_while_the_database_is_open(self):
        db = litefoot.connect(self.path(), isolation_level=None)
        db.execute("CREATE TABLE t(x)")
        db.execute("INSERT INTO t VALUES (1)")
        stock = sqlite3.connect(self.path(), timeout=0, isolation_level=None)
        self.assertEqual(stock.execute("SELECT x FROM t").fetchall(), [(1,)])
        stock.execute("INSERT INTO t VALUES (2)")
        self.assertEqual(db.execute("SELECT x FROM t").fetchall(), [(1,), (2,)])
        stock.close()
        self.python("import sqlite3; sqlite3.connect('app.db', timeout=0).execute('SELECT * FROM t')")
        db.close()

    def test_stock_sqlite_is_kept_out_of_a_database_that_is_not_shared(self):
        db = litefoot.connect(self.path(), sharing="exclusive")
        db.execute("CREATE TABLE t(x)")
        ask = "import sqlite3; sqlite3.connect('app.db', timeout=0).execute('SELECT * FROM t')"
        stock = sqlite3.connect(self.path(), timeout=0)
        with self.assertRaisesRegex(sqlite3.OperationalError, "database is locked"):
            stock.execute("SELECT * FROM t")
        stock.close()
        with self.assertRaisesRegex(AssertionError, "database is locked"):
            self.python(ask)
        db.close()
        self.python(ask)

    def test_mode_is_sqlites(self):
        with self.assertRaises(sqlite3.OperationalError):
            litefoot.connect(self.path(), mode="rw")
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_wrong_option_is_an_error(self):
        with self.assertRaisesRegex(TypeError, "unknown option 'commit_log_sizes'; litefoot knows .*commit_log_size.*timeout"):
            litefoot.connect(self.path(), commit_log_sizes=1)
        with self.assertRaisesRegex(TypeError, "commit_log_size=1.5: takes a str"):
            litefoot.connect(self.path(), commit_log_size=1.5)
        with self.assertRaisesRegex(TypeError, "commit_log_path=None"):
            litefoot.connect(self.path(), commit_log_path=None)
        with self.assertRaisesRegex(sqlite3.OperationalError, "commit_log_size takes a number of bytes"):
            litefoot.connect(self.path(), commit_log_size="lots")
        with self.assertRaises(TypeError):
            litefoot.connect(3)
        self.assertEqual(os.listdir(self.folder), [])

    def test_the_names_of_the_options_are_those_of_the_extension(self):
        source = REPOSITORY / "crates/vfs/src/options.rs"
        if not source.is_file():
            self.skipTest("the source of the extension is not there")
        names = re.findall(r'^\s+(?:name: "(\w+)",|one_of!\(\n\s+(\w+),)$', source.read_text(), re.M)
        self.assertEqual(tuple(plain or choice for plain, choice in names), litefoot.OPTIONS)

    def test_paths_are_taken_literally(self):
        names = ["plain.db", "a?b=c&d.db", "a#b.db", "a%41%00.db", "a b+c.db", "file:x.db", "Grüße.db", "a'\";:@.db"]
        for name in names:
            for form in (str, Path, os.fsencode):
                with self.subTest(name=name, form=form.__name__):
                    path = self.path(name)
                    fill(litefoot.connect(form(path)))
                    self.assertIn(name, os.listdir(self.folder))
                    self.assert_stock_reads(path, [(1,)])
                    for left in os.listdir(self.folder):
                        os.remove(self.path(left))

    def test_bytes_relative_paths_and_double_slashes(self):
        before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        for path, name in [
            (b"raw\xff.db", b"raw\xff.db"),
            ("file:x.db?mode=ro", b"file:x.db?mode=ro"),
            ("./:memory:", b":memory:"),
            ("/" + self.path("slashes.db"), b"slashes.db"),
        ]:
            with self.subTest(path=path):
                fill(litefoot.connect(path))
                self.assertIn(name, os.listdir(b"."))
        with self.assertRaisesRegex(ValueError, "null"):
            litefoot.connect("a\0b.db")

    def test_uris(self):
        uri = f"file:{self.path('u%20ri.db')}"
        fill(litefoot.connect(uri, uri=True, commit_log_size="1M"))
        self.assertIn("u ri.db", os.listdir(self.folder))
        db = litefoot.connect(f"{uri}?mode=ro&vfs=unix#fragment", uri=True, writer_timeout_ms=1)
        self.assertIn("database_syncs", litefoot.stats(db))
        with self.assertRaisesRegex(sqlite3.OperationalError, "readonly"):
            db.execute("INSERT INTO t VALUES (2)")
        db.close()
        fill(litefoot.connect(self.path("no?uri.db"), uri=True))
        self.assertIn("no?uri.db", os.listdir(self.folder))

    def test_databases_without_a_file(self):
        for path in (":memory:", "", b":memory:"):
            db = litefoot.connect(path)
            db.execute("CREATE TABLE t(x)")
            self.assertEqual(db.execute("PRAGMA database_list").fetchone()[2], "")
            self.assertEqual(litefoot.stats(db), {})
            db.close()

    def test_threads(self):
        fill(litefoot.connect(self.path()))
        errors = []

        def write(first):
            try:
                db = litefoot.connect(self.path(), timeout=30)
                for x in range(first, first + 50):
                    with db:
                        db.execute("INSERT INTO t VALUES (?)", (x,))
                db.close()
            except Exception as error:  # noqa: BLE001 - whatever it is, the test shall show it
                errors.append(error)

        threads = [threading.Thread(target=write, args=(100 * n,)) for n in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        rows = [(1,)] + [(x,) for n in range(1, 5) for x in range(100 * n, 100 * n + 50)]
        self.assert_stock_reads(self.path(), rows)

    def test_the_first_connections_may_be_of_many_threads(self):
        self.python(
            "import litefoot, threading\n"
            "open_ = lambda n: litefoot.connect(f'{n}.db').execute('CREATE TABLE t(x)')\n"
            "threads = [threading.Thread(target=open_, args=(n,)) for n in range(8)]\n"
            "[t.start() for t in threads], [t.join() for t in threads]\n"
        )
        self.assertEqual([n for n in range(8) if not os.path.getsize(self.path(f"{n}.db"))], [])


class Stats(InFolder):
    def test_figures_by_name(self):
        db = litefoot.connect(self.path())
        db.row_factory = sqlite3.Row
        with db:
            db.execute("CREATE TABLE t(x)")
        figures = litefoot.stats(db)
        self.assertEqual(figures["commits_pages"], 1)
        self.assertEqual({type(value) for value in figures.values()}, {int})
        self.assertFalse(db.in_transaction)
        db.close()

    def test_none_for_a_stock_connection(self):
        db = sqlite3.connect(self.path())
        self.assertEqual(litefoot.stats(db), {})
        db.close()
        with self.assertRaises(sqlite3.ProgrammingError):
            litefoot.stats(db)


class MakeDefault(InFolder):
    ASK = "print(sqlite3.connect('app.db').execute('PRAGMA litefoot_version').fetchone())\n"

    def test_every_database_is_on_litefoot_afterwards(self):
        said = self.python("import litefoot, sqlite3\n" + self.ASK + "litefoot.make_default()\n" * 2 + self.ASK)
        self.assertEqual(said, f"None\n{(litefoot.__version__,)}\n")

    def test_what_runs_at_start_never_stops_the_application(self):
        hidden = "import sys; sys.modules['litefoot'] = None\nimport sqlite3\n"
        at_start = "exec(open(%r).read())\n" % os.path.join(os.path.dirname(litefoot.__file__), "_at_start.py")
        self.assertEqual(self.python(hidden + at_start + self.ASK), "None\n")


class Load(InFolder):
    def test_an_existing_connection_loads_it(self):
        self.python(
            "import litefoot, sqlite3\n"
            "db = sqlite3.connect('stock.db')\n"
            "litefoot.load(db)\n"
            "litefoot.load(db)\n"
            "assert litefoot.stats(db) == {}\n"
            "ours = sqlite3.connect('file:ours.db?vfs=litefoot', uri=True)\n"
            "ours.execute('CREATE TABLE t(x)')\n"
            "assert litefoot.stats(ours)['commits_pages'] == 1\n"
        )

    @unittest.skipUnless(hasattr(sqlite3.Connection, "enable_load_extension"), "this Python cannot load extensions")
    def test_the_permission_to_load_stays_as_it_was(self):
        db = sqlite3.connect(":memory:")
        db.enable_load_extension(False)  # some builds of SQLite begin with permission
        litefoot.load(db)
        self.assertEqual(db.execute("SELECT count(*) FROM litefoot_stats").fetchone(), (0,))
        with self.assertRaisesRegex(sqlite3.OperationalError, "not authorized"):
            db.load_extension(litefoot.loadable_path())
        db.enable_load_extension(True)
        litefoot.load(db)
        db.load_extension(litefoot.loadable_path())
        db.close()

    def test_the_path_can_be_loaded(self):
        self.assertTrue(os.path.isfile(litefoot.loadable_path()))
