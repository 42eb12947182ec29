"""Makes the package of the source tree importable, together with the extension."""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PYTHON = Path(__file__).resolve().parent.parent
REPOSITORY = PYTHON.parent
LIBRARY = Path(os.environ.get("LITEFOOT_LIBRARY", REPOSITORY / "target/release/liblitefoot.so")).absolute()


def stage() -> str:
    """A folder that holds the package as it would be installed."""
    if not LIBRARY.is_file():
        raise FileNotFoundError(
            f"{LIBRARY}: run `cargo build --release -p litefoot-extension` first, or set LITEFOOT_LIBRARY"
        )
    folder = tempfile.mkdtemp(prefix="litefoot-package-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shutil.copytree(PYTHON / "src/litefoot", Path(folder, "litefoot"))
    shutil.copyfile(LIBRARY, Path(folder, "litefoot", "liblitefoot.so"))
    return folder


STAGE = stage()
sys.path.insert(0, STAGE)


class InFolder(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="litefoot-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, name="app.db"):
        return os.path.join(self.folder, name)

    def python(self, code, python=sys.executable, **environment):
        """Runs code in a new process that imports the staged package, and returns what it printed."""
        environment = {**os.environ, "PYTHONPATH": STAGE, **environment}
        run = subprocess.run(
            [python, "-c", code], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=120
        )
        self.assertEqual(run.returncode, 0, f"{code}\n{run.stdout}{run.stderr}")
        return run.stdout
