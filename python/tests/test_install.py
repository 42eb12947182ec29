"""`pip install ./python` into a fresh virtual environment, and the build hook.

With LITEFOOT_LIBRARY that file is installed; without it cargo builds the extension, as for a user.
"""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from .support import LIBRARY, PYTHON, REPOSITORY, InFolder

TRY = """
import litefoot, sqlite3, sys
assert litefoot.loadable_path().startswith(sys.prefix), litefoot.loadable_path()
db = litefoot.connect("app.db")
with db:
    db.execute("CREATE TABLE t(x)")
print(litefoot.__version__, litefoot.stats(db)["commits_pages"])
db.close()
assert sqlite3.connect("app.db").execute("PRAGMA integrity_check").fetchall() == [("ok",)]
"""

FAKE_CARGO = """#!/bin/sh
echo "$@" > arguments
mkdir -p elsewhere && cp "$LIBRARY_TO_BUILD" elsewhere/liblitefoot.so
echo '{"reason": "compiler-artifact", "filenames": ["'"$PWD"'/elsewhere/liblitefoot.so"]}'
echo '{"reason": "build-finished", "success": true}'
"""


def version():
    return re.search(r'^__version__ = "(.*)"$', (PYTHON / "src/litefoot/__init__.py").read_text(), re.M).group(1)


def can_build_offline():
    return all(importlib.util.find_spec(name) for name in ("setuptools", "wheel"))


def copy_of_the_package(folder):
    return shutil.copytree(
        PYTHON, Path(folder, "python"), ignore=shutil.ignore_patterns("build", "*.egg-info", "*.so", "__pycache__")
    )


class Install(InFolder):
    def test_the_version_is_that_of_the_repository(self):
        cargo = REPOSITORY / "Cargo.toml"
        if not cargo.is_file():
            self.skipTest("the repository is not there")
        self.assertIn(f'\nversion = "{version()}"\n', cargo.read_text())

    def test_pip_install_into_a_fresh_environment(self):
        offline = can_build_offline()
        environment = Path(self.folder, "venv")
        try:
            venv.create(environment, with_pip=True, system_site_packages=offline)
        except subprocess.CalledProcessError:
            self.skipTest("this Python cannot make a virtual environment with pip (python3-venv)")
        python = str(environment / "bin/python")
        # The README's line, in the repository; a file that is given needs nothing of it, so a copy will do.
        from_source, given = re.search(r"```sh\n(.*)\n(.*)\n```", (PYTHON / "README.md").read_text()).groups()
        ready = "LITEFOOT_LIBRARY" in os.environ
        if ready:
            copy_of_the_package(self.folder)
        line = given.replace("/path/to/liblitefoot.so", shlex.quote(str(LIBRARY))) if ready else from_source
        variables = {"PATH": f"{environment}/bin{os.pathsep}{os.environ['PATH']}", "PIP_NO_CACHE_DIR": "1"}
        if offline:
            variables.update(PIP_NO_BUILD_ISOLATION="0", PIP_NO_INDEX="1")  # pip reads 0 as "no isolation"
        run = subprocess.run(
            ["sh", "-c", line],
            cwd=self.folder if ready else REPOSITORY,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
        )
        if not offline and "No matching distribution found for setuptools" in run.stderr:
            self.skipTest("no network, and this Python has no setuptools and wheel of its own")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertEqual(self.python(TRY, python=python, PYTHONPATH=""), f"{version()} 1\n")

        ask = "import sqlite3; print(sqlite3.connect('plain.db').execute('PRAGMA litefoot_version').fetchone())"
        for switch, answer in [("on", (version(),)), ("off", None), ("", None)]:
            self.assertEqual(self.python(ask, python=python, PYTHONPATH="", LITEFOOT=switch), f"{answer}\n")

        folder = next(environment.glob("lib*/python*/site-packages"))
        metadata = folder / f"litefoot-{version()}.dist-info"
        self.assertRegex((metadata / "WHEEL").read_text(), r"(?m)^Tag: py3-none-linux_\w+$")
        self.assertRegex((metadata / "METADATA").read_text(), r"(?m)^License(-Expression)?: Apache-2.0 OR MIT$")
        self.assertNotIn("Requires-Dist", (metadata / "METADATA").read_text())
        self.assertTrue((folder / "litefoot/py.typed").is_file())


class BuildHook(InFolder):
    def setUp(self):
        super().setUp()
        if not can_build_offline():
            self.skipTest("this Python has no setuptools and wheel")
        self.package = copy_of_the_package(self.folder)

    def build(self, **variables):
        clean = {name: value for name, value in os.environ.items() if name != "LITEFOOT_LIBRARY"}
        return subprocess.run(
            [sys.executable, "setup.py", "-q", "build_py", "--build-lib", self.path("out")],
            cwd=self.package, env={**clean, **variables}, capture_output=True, text=True,
        )  # fmt: skip

    def test_cargo_is_asked_where_it_has_put_the_library(self):
        Path(self.path("crates/extension")).mkdir(parents=True)
        Path(self.path("crates/extension/Cargo.toml")).touch()
        cargo = Path(self.path("bin/cargo"))
        cargo.parent.mkdir()
        cargo.write_text(FAKE_CARGO)
        cargo.chmod(0o755)
        path = f"{cargo.parent}{os.pathsep}{os.environ['PATH']}"
        run = self.build(PATH=path, LIBRARY_TO_BUILD=str(LIBRARY))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("build --release --locked -p litefoot-extension", Path(self.path("arguments")).read_text())
        self.python(TRY.replace("sys.prefix", repr(self.folder)), PYTHONPATH=self.path("out"))

    def test_neither_a_source_tree_nor_a_library(self):
        run = self.build()
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("no source tree at", run.stderr)
        run = self.build(LITEFOOT_LIBRARY=self.path("nothing.so"))
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("nothing.so: no such file", run.stderr)

    def test_no_cargo(self):
        Path(self.path("crates/extension")).mkdir(parents=True)
        Path(self.path("crates/extension/Cargo.toml")).touch()
        run = self.build(PATH=self.folder)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("needs a Rust toolchain", run.stderr)
