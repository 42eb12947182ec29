"""Runs every example and checks, with stock SQLite, what it leaves.

    LITEFOOT_LIBRARY=target/release/liblitefoot.so LITEFOOT_PROGRAM=target/release/litefoot python3 examples/test.py

What an example needs from elsewhere (Python packages, npm, Go modules, a jar) is downloaded once, into
LITEFOOT_EXAMPLES_CACHE or ~/.cache/litefoot-examples. An example whose toolchain or packages cannot be had is
skipped, and says what to install. LITEFOOT_EXAMPLES_OFFLINE=1 takes what is in the cache and downloads nothing. The
Rust one builds SQLite and litefoot: LITEFOOT_EXAMPLES_RUST=1 runs it.
"""

import hashlib
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest
import urllib.request
from contextlib import closing
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent
REPOSITORY = EXAMPLES.parent
LIBRARY = Path(os.environ.get("LITEFOOT_LIBRARY", REPOSITORY / "target/release/liblitefoot.so")).absolute()
PROGRAM = Path(os.environ.get("LITEFOOT_PROGRAM", REPOSITORY / "target/release/litefoot")).absolute()
CACHE = Path(os.environ.get("LITEFOOT_EXAMPLES_CACHE", Path.home() / ".cache/litefoot-examples")).absolute()

JAR = "https://repo1.maven.org/maven2/org/xerial/sqlite-jdbc/3.54.1.0/sqlite-jdbc-3.54.1.0.jar"
JAR_SHA256 = "f8dce420a6016278497f4f0560f65602b9db858de141b541cf91a4644ebe4639"
OFFLINE = os.environ.get("LITEFOOT_EXAMPLES_OFFLINE") == "1"

# Downloading and compiling SQLite on a small machine takes minutes, an example seconds.
PREPARE_SECONDS = 1800
RUN_SECONDS = 120

# By command: None, or why it failed.
_prepared = {}


def setUpModule():
    for file in (LIBRARY, PROGRAM):
        if not file.is_file():
            raise FileNotFoundError(
                f"{file}: run `cargo build --release` first, or set LITEFOOT_LIBRARY and LITEFOOT_PROGRAM"
            )


def need(program, install):
    if shutil.which(program) is None:
        raise unittest.SkipTest(f"there is no {program}: {install}")


def prepare(command, install, **options):
    """Fetches what an example needs; where that fails, the example is skipped."""
    key = tuple(map(str, command))
    if key not in _prepared:
        run = subprocess.run(key, capture_output=True, text=True, timeout=PREPARE_SECONDS, **options)
        lines = (run.stderr.strip() or run.stdout.strip()).splitlines()
        _prepared[key] = (lines or ["no reason given"])[-1] if run.returncode else None
    if _prepared[key]:
        raise unittest.SkipTest(f"{install} ({' '.join(key)}: {_prepared[key]})")


def copy_to_cache(name):
    """The example's folder in the cache, where a package manager may write beside it."""
    folder = CACHE / name
    shutil.copytree(EXAMPLES / name, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
    return folder


class Examples(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="litefoot-example-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        CACHE.mkdir(parents=True, exist_ok=True)

    def build(self, command, **options):
        run = subprocess.run(command, capture_output=True, text=True, timeout=PREPARE_SECONDS, **options)
        self.assertEqual(run.returncode, 0, f"{command}\n{run.stdout}{run.stderr}")

    def run_in_folder(self, command, **environment):
        environment = {
            **os.environ,
            "LITEFOOT_LIBRARY": str(LIBRARY),
            "LITEFOOT_PROGRAM": str(PROGRAM),
            **{name: str(value) for name, value in environment.items()},
        }
        run = subprocess.run(
            list(map(str, command)),
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
        )
        self.assertEqual(run.returncode, 0, f"{command}\n{run.stdout}{run.stderr}")
        return run.stdout

    def check(self, command, name, table, rows, commits, said, **environment):
        """Runs an example: it says so, does at least so many commits on litefoot, and leaves one plain file."""
        output = self.run_in_folder(command, **environment)
        self.assertIn(said, output)
        told = re.search(r"^(\d+) rows, (\d+) commits by litefoot$", output, re.MULTILINE)
        self.assertIsNotNone(told, output)
        self.assertEqual(int(told[1]), rows, output)
        self.assertGreaterEqual(int(told[2]), commits, output)
        self.check_file(name, table, rows)

    def check_file(self, name, table, rows):
        self.assertEqual(os.listdir(self.folder), [name])
        with closing(sqlite3.connect(self.folder / name)) as db:
            self.assertEqual(db.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
            self.assertEqual(db.execute(f"SELECT count(*) FROM {table}").fetchone(), (rows,))


    def check_python(self, example, *expected):
        """An example that imports the package `litefoot`, which is laid out as pip would."""
        venv = CACHE / f"venv-{sys.version_info.major}.{sys.version_info.minor}"
        python = venv / "bin/python"
        if not python.exists():
            if OFFLINE:
                self.skipTest(f"there is no {venv}, which python3 examples/test.py makes")
            prepare([sys.executable, "-m", "venv", venv], "install venv: apt install python3-venv")
        wanted = EXAMPLES / example.split("/")[0] / "requirements.txt"
        install = [python, "-m", "pip", "install", "-q", *(["--no-index"] if OFFLINE else []), "-r", wanted]
        prepare(install, f"install the packages of {wanted}")
        with tempfile.TemporaryDirectory(prefix="litefoot-package-") as packages:
            package = Path(packages, "litefoot")
            shutil.copytree(REPOSITORY / "python/src/litefoot", package)
            shutil.copyfile(LIBRARY, package / "liblitefoot.so")
            self.check([python, "-W", "error", EXAMPLES / example], *expected, PYTHONPATH=packages)

    def test_pandas(self):
        self.check_python("pandas/readings.py", "readings.db", "reading", 1440, 144, "yard       23.0")

    def test_sqlalchemy(self):
        self.check_python("sqlalchemy/orders.py", "orders.db", "orders", 200, 200, "Ada ordered 1030 pieces")

    def test_django(self):
        self.check_python("django/orders.py", "orders.db", "shop_order", 200, 200, "Ada paid for 40 pieces")

    def prepare_node(self, name, package):
        """The folder of an example of Node's in the cache, with a package that has native code."""
        install = "install Node.js 20 or later and npm: https://nodejs.org"
        need("node", install)
        need("npm", install)
        folder = copy_to_cache(name)
        environment = {**os.environ, "npm_config_cache": str(CACHE / "npm")}
        fetch = ["npm", "install", "--offline" if OFFLINE else "--prefer-offline", "--no-audit", "--no-fund"]
        prepare(fetch, f"{package} cannot be had", cwd=folder, env=environment)
        # npm succeeds also where nothing was compiled: without a compiler, or where scripts of packages may not run.
        probe = ["node", "-e", f"const S = require('{package}'); new (S.Database ?? S)(':memory:').close()"]
        prepare(probe, f"{package} has no native part here: npm rebuild {package}", cwd=folder, env=environment)
        return folder

    def test_node(self):
        folder = self.prepare_node("node", "better-sqlite3")
        self.check(["node", folder / "readings.js"], "readings.db", "reading", 1000, 500, "hall 22.87")

    def test_node_sqlite3(self):
        folder = self.prepare_node("node-sqlite3", "sqlite3")
        command = [PROGRAM, "run", "--", "node", folder / "readings.js"]
        self.check(command, "readings.db", "reading", 1000, 500, "hall 22.87")

    def test_go(self):
        need("go", "install Go 1.22 or later: https://go.dev/dl")
        need("cc", "install a C compiler: apt install gcc")
        program = CACHE / "go/orders"
        environment = {
            **os.environ,
            "CGO_ENABLED": "1",
            "GOCACHE": str(CACHE / "go/build"),
            "GOFLAGS": "-modcacherw",
            "GOMODCACHE": str(CACHE / "go/mod"),
            "GOTOOLCHAIN": "local",
            **({"GOPROXY": "off"} if OFFLINE else {}),
        }
        prepare(["go", "mod", "download"], "the Go modules cannot be had", cwd=EXAMPLES / "go", env=environment)
        self.build(["go", "build", "-o", program, "."], cwd=EXAMPLES / "go", env=environment)
        self.check([program], "orders.db", "orders", 500, 500, "8500 pieces are left")

    def test_java(self):
        need("java", "install a JDK, 11 or later: apt install default-jdk-headless")
        need("javac", "a JRE does not compile; install a JDK: apt install default-jdk-headless")
        jar = CACHE / "java" / Path(JAR).name
        if not jar.exists():
            if OFFLINE:
                self.skipTest(f"there is no {jar}: {JAR}")
            try:
                with urllib.request.urlopen(JAR, timeout=60) as answer:
                    content = answer.read()
            except OSError as error:
                self.skipTest(f"{JAR}: {error}; put it into {jar.parent}")
            self.assertEqual(hashlib.sha256(content).hexdigest(), JAR_SHA256)
            jar.parent.mkdir(parents=True, exist_ok=True)
            partial = jar.with_suffix(".part")
            partial.write_bytes(content)
            partial.rename(jar)
        command = ["java", "-cp", jar, EXAMPLES / "java/Readings.java"]
        self.check(command, "readings.db", "reading", 500, 500, "250 readings in the hall")

    def test_rust(self):
        if os.environ.get("LITEFOOT_EXAMPLES_RUST") != "1":
            self.skipTest("it builds SQLite and litefoot, which takes minutes: set LITEFOOT_EXAMPLES_RUST=1")
        need("cargo", "install Rust: https://rustup.rs")
        manifest = EXAMPLES / "rust/Cargo.toml"
        self.build(["cargo", "build", "-q", "--manifest-path", manifest, "--target-dir", CACHE / "rust"])
        self.check([CACHE / "rust/debug/readings"], "readings.db", "reading", 1000, 500, "hall 22.87")

    def test_shell(self):
        need("sqlite3", "install SQLite's shell: apt install sqlite3")
        self.check(["sh", EXAMPLES / "shell/readings.sh"], "readings.db", "reading", 61, 3, "hall 22.95")

    def test_run(self):
        need("python3", "install Python: apt install python3")
        need("sqlite3", "install SQLite's shell: apt install sqlite3")
        self.check(["sh", EXAMPLES / "run/readings.sh"], "readings.db", "reading", 501, 1, "hall 22.92")

    def test_what_runs_on_litefoot_runs_without(self):
        said = self.run_in_folder([sys.executable, EXAMPLES / "run/readings.py", "stock.db"])
        self.assertEqual(said, "hall 22.92\nyard 22.82\n")
        self.check_file("stock.db", "reading", 500)


if __name__ == "__main__":
    unittest.main(verbosity=2)
