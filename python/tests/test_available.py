"""Pythons that cannot load extensions, and other things that may be missing."""

import os
import shutil
import sqlite3
import subprocess
import unittest
from unittest import mock

from .support import STAGE, InFolder

import litefoot

# A Python whose connections have neither enable_load_extension nor load_extension.
BARE = """
import sqlite3

class Bare(sqlite3.Connection):
    def __getattribute__(self, name):
        if name in ("enable_load_extension", "load_extension"):
            raise AttributeError(name)
        return super().__getattribute__(name)

connect = sqlite3.connect
sqlite3.connect = lambda *args, **options: connect(*args, **{"factory": Bare, **options})
import litefoot
"""

USE = """
db = litefoot.connect("app.db")
db.execute("CREATE TABLE t(x)")
assert litefoot.stats(db)["commits_pages"] == 1
db.close()
"""


def sqlite_is_a_library():
    """Whether the module `_sqlite3` of this Python is linked to a shared SQLite."""
    import _sqlite3

    file = getattr(_sqlite3, "__file__", None)
    return bool(file) and "libsqlite3" in subprocess.run(["ldd", file], capture_output=True, text=True).stdout


class WithoutLoadExtension(InFolder):
    @unittest.skipUnless(sqlite_is_a_library(), "this Python's SQLite is no shared library")
    def test_the_library_is_reached_directly(self):
        self.python(BARE + USE)

    @unittest.skipUnless(sqlite_is_a_library(), "this Python's SQLite is no shared library")
    def test_load(self):
        load = "litefoot.load(sqlite3.connect(':memory:'))\n"
        self.python(BARE + load + "connect('file:a.db?vfs=litefoot', uri=True).execute('CREATE TABLE t(x)')\n" + USE)

    @unittest.skipUnless(sqlite_is_a_library(), "this Python's SQLite is no shared library")
    def test_make_default(self):
        self.python(
            BARE + "litefoot.make_default()\n"
            "assert connect('app.db').execute('PRAGMA litefoot_version').fetchone() == (litefoot.__version__,)\n"
        )

    def test_out_of_reach(self):
        code = BARE + "import ctypes\n" + "ctypes.CDLL = lambda name: {}\n"
        code += "try:\n    litefoot.connect('app.db')\nexcept litefoot.NotAvailable as error:\n    print(error)\n"
        said = self.python(code)
        for part in ("without sqlite3.Connection.load_extension", "the Python of your distribution", "litefoot run"):
            self.assertIn(part, said)
        self.assertEqual(os.listdir(self.folder), [])

    def test_another_sqlite_than_sqlite3s(self):
        with mock.patch.object(litefoot, "_is_registered", return_value=False):
            with self.assertRaisesRegex(litefoot.NotAvailable, "not the one that sqlite3 uses"):
                litefoot.connect(self.path())

    def test_a_refusal_is_told(self):
        with self.assertRaisesRegex(litefoot.NotAvailable, "refuses: .*nothing.so"):
            litefoot._load_beneath(self.path("nothing.so"))

    def test_other_pythons_of_this_machine(self):
        others = [shutil.which(f"python3.{minor}") for minor in range(9, 20)] + ["/usr/bin/python3"]
        ask = "import sqlite3, sys; sys.exit(sqlite3.sqlite_version_info < (3, 40) or sys.version_info < (3, 9))"
        for python in dict.fromkeys(filter(None, others)):
            try:
                usable = subprocess.run([python, "-c", ask], capture_output=True).returncode == 0
            except OSError:
                continue
            if usable:
                with self.subTest(python=python):
                    self.python("import litefoot\n" + USE, python=python)
                    os.remove(self.path())


class Missing(InFolder):
    def test_the_library(self):
        package = os.path.join(self.folder, "package", "litefoot")
        shutil.copytree(os.path.join(STAGE, "litefoot"), package)
        os.remove(os.path.join(package, "liblitefoot.so"))
        said = self.python(
            "import litefoot\ntry:\n    litefoot.connect('app.db')\nexcept litefoot.NotAvailable as error:\n"
            "    print(error)\n",
            PYTHONPATH=os.path.dirname(package),
        )
        self.assertIn("liblitefoot.so is missing. Install litefoot with pip", said)

    def test_a_recent_sqlite(self):
        with mock.patch.object(litefoot, "_is_registered", return_value=False):
            with mock.patch.object(sqlite3, "sqlite_version_info", (3, 39, 4)):
                with self.assertRaisesRegex(litefoot.NotAvailable, "3.40 or later is needed"):
                    litefoot.connect(self.path())


class Preloaded(InFolder):
    @unittest.skipUnless(sqlite_is_a_library(), "this Python's SQLite is no shared library")
    def test_the_preloaded_library_is_used(self):
        preload = os.path.join(STAGE, "litefoot", "liblitefoot.so")
        copy = self.path("liblitefoot-preloaded.so")
        shutil.copyfile(preload, copy)
        maps = "print(sorted({l.split()[-1] for l in open('/proc/self/maps') if 'liblitefoot' in l}))\n"
        said = self.python(
            "import litefoot, sqlite3\nlitefoot.load(sqlite3.connect(':memory:'))\n" + USE + maps, LD_PRELOAD=copy
        )
        self.assertEqual(said, f"['{copy}']\n")
