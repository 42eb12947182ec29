"""The build hook: puts the extension, liblitefoot.so, into the package.

It is the file that the environment variable LITEFOOT_LIBRARY names, or else is built by cargo from the source
tree around this folder. The extension knows nothing of Python, so one wheel per platform serves every version.

Beside the package goes `litefoot.pth`, which Python reads when it starts: with LITEFOOT=on it puts the module `sqlite3` on litefoot.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

LIBRARY = "liblitefoot.so"
AT_START = "litefoot.pth"
REPOSITORY = Path(__file__).resolve().parent.parent


def put_library(target: Path) -> None:
    """Puts the extension at `target`."""
    ready = os.environ.get("LITEFOOT_LIBRARY")
    if ready:
        if not Path(ready).is_file():
            raise SystemExit(f"litefoot: LITEFOOT_LIBRARY={ready}: no such file")
        shutil.copyfile(ready, target)
        return
    shutil.copyfile(build_library(), target)
    if shutil.which("strip"):  # a sixth of the size
        subprocess.run(["strip", "--strip-unneeded", str(target)], check=True)


def build_library() -> str:
    """Builds the extension and returns where cargo has put it."""
    if not (REPOSITORY / "crates/extension/Cargo.toml").is_file():
        raise SystemExit(
            f"litefoot: no source tree at {REPOSITORY}: install from a clone of the repository, "
            f"or set LITEFOOT_LIBRARY to a ready {LIBRARY}"
        )
    if not shutil.which("cargo"):
        raise SystemExit(
            "litefoot: building the extension needs a Rust toolchain (https://rustup.rs) and a C compiler; "
            f"or set LITEFOOT_LIBRARY to a ready {LIBRARY}"
        )
    command = ["cargo", "build", "--release", "--locked", "-p", "litefoot-extension"]
    command.append("--message-format=json-render-diagnostics")
    run = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    if run.returncode != 0:
        raise SystemExit(f"litefoot: {' '.join(command)} failed, see above")
    messages = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    files = [file for message in messages for file in message.get("filenames", [])]
    built = [file for file in files if Path(file).name == LIBRARY]
    if not built:
        raise SystemExit(f"litefoot: {' '.join(command)} built no {LIBRARY}")
    return built[-1]


class BuildWithLibrary(build_py):
    def run(self) -> None:
        super().run()
        if getattr(self, "editable_mode", False):
            folder = Path(self.get_package_dir("litefoot"))
        else:
            folder = Path(self.build_lib, "litefoot")
            shutil.copyfile(AT_START, Path(self.build_lib, AT_START))
        put_library(folder / LIBRARY)


class PlatformDistribution(Distribution):
    def has_ext_modules(self) -> bool:
        return True


class PlatformWheel(bdist_wheel):
    """A wheel for this platform and any Python 3."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setup(
    license="Apache-2.0 OR MIT",
    distclass=PlatformDistribution,
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel},
)
