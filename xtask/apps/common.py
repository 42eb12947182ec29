"""What the applications have in common: where they are installed, and what is done to each.

An application is a module with these names:

    ABOUT         the title of its page
    REQUIREMENTS  what pip installs into an environment of its own; empty for a program of the system's
    PYTHON        versions of Python that it runs on, the best first; empty for this one
    prepare(app)  makes the state that every run begins with, in the folder app.folder
    command(app)  the application, doing its work and ending
    DATABASE      its database, within app.folder
    COUNT         a query whose answer grows with each piece of work; a visitor asks it all the time

It may have `missing()`, which answers what the system lacks, as advice, or None; and `settle(app)`, which undoes what a run leaves beside
its databases.

Each is tried (`litefoot try`), visited by stock SQLite's shell while it works, and killed. Nothing of litefoot's is imported by it.
"""

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

CACHE = Path(os.environ.get("LITEFOOT_APPS_CACHE", Path.home() / ".cache/litefoot-apps")).absolute()
PROGRAM = Path(os.environ.get("LITEFOOT_PROGRAM", "target/release/litefoot")).absolute()
ROUNDS = os.environ.get("LITEFOOT_APPS_ROUNDS", "5")
KILLS = 5
INSTALL_SECONDS = 1800
RUN_SECONDS = 600


class Missing(Exception):
    """The application cannot be had here."""


def absent(*programs, packages=None):
    """The programs, and files by their paths, that are not there, with what brings them; None where all are."""
    lacks = [str(program) for program in programs if not (shutil.which(program) or os.path.isabs(program) and os.path.exists(program))]
    return f"{', '.join(lacks)}: apt-get install {packages or ' '.join(lacks)}" if lacks else None


def fetch(command, folder=None):
    """Runs a step of an installation."""
    run = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    if run.returncode:
        raise Missing((run.stderr.strip().splitlines() or ["no reason given"])[-1])


def free_port():
    """A port of this machine for a server that takes no socket file."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_there(python):
    """True for a Python that runs; a shim of pyenv's may have nothing behind it."""
    return shutil.which(python) and subprocess.run([python, "-c", ""], capture_output=True).returncode == 0


class App:
    def __init__(self, name, module, folder):
        self.name, self.module, self.folder = name, module, folder
        self.python = Path(sys.executable)

    @property
    def database(self):
        return self.folder / self.module.DATABASE

    def install(self):
        """Installs it once, into an environment of its own."""
        lacks = absent("sqlite3") or getattr(self.module, "missing", lambda: None)()
        if lacks:
            raise Missing(lacks)
        if not self.module.REQUIREMENTS:
            return
        base = next(filter(is_there, self.module.PYTHON), None) if self.module.PYTHON else sys.executable
        if base is None:
            raise Missing(f"{self.module.PYTHON[0]}: install it, and have it on the PATH")
        environment = CACHE / self.name
        self.python = environment / "bin/python"
        wanted = "\n".join(self.module.REQUIREMENTS)
        stamp = environment / "installed"
        if stamp.exists() and stamp.read_text() == wanted:
            return
        for command in ([base, "-m", "venv", environment], [self.python, "-m", "pip", "install", "-q", *self.module.REQUIREMENTS]):
            fetch(command)
        stamp.write_text(wanted)

    def run(self, command, **options):
        """Runs a command to its end, which must be good."""
        run = subprocess.run(list(map(str, command)), cwd=self.folder, capture_output=True, text=True, timeout=RUN_SECONDS, **options)
        if run.returncode:
            raise RuntimeError(f"{' '.join(map(str, command))}\n{run.stdout}{run.stderr}")
        return run.stdout

    def write_client(self, name, script):
        """A client of a server, and beside it what such clients share."""
        (self.folder / name).write_text(script)
        shutil.copy(Path(__file__).with_name("served.py"), self.folder)

    def settle(self):
        getattr(self.module, "settle", lambda _app: None)(self)

    def on_litefoot(self):
        return [PROGRAM, "run", "--", *self.module.command(self)]

    def ask(self):
        """The answer of stock SQLite's shell; None while the database is not there yet."""
        if not self.database.exists():
            return None
        run = self.shell("-readonly")
        if run.returncode and "readonly database" in run.stderr:
            # Several processes were killed in SQLite's own protocol: a journal is to be rolled back.
            run = self.shell()
        if "no such table" in run.stderr or "unable to open" in run.stderr:
            return None
        if run.returncode:
            raise RuntimeError(f"sqlite3 beside it: {run.stderr.strip()}")
        return int(run.stdout)

    def shell(self, *options):
        """Stock SQLite's shell, asked for the count."""
        command = ["sqlite3", *options, "-cmd", ".timeout 5000", str(self.database), self.module.COUNT]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    def check(self):
        with closing(sqlite3.connect(self.database)) as db:
            verdict = db.execute("PRAGMA integrity_check").fetchone()[0]
        if verdict != "ok":
            raise RuntimeError(f"damaged: {verdict}")

    def tried(self):
        """Both sides, by `litefoot try`."""
        self.settle()
        command = [PROGRAM, "try", "--json", "--rounds", ROUNDS, "--", *self.module.command(self)]
        return json.loads(self.run(command))

    def visited(self):
        """Works on litefoot while sqlite3 asks; how often it did, and what it saw last."""
        self.settle()
        with open(self.folder / "visited.log", "w") as log:
            work = subprocess.Popen(list(map(str, self.on_litefoot())), cwd=self.folder, stdout=log, stderr=log)
        answers = []
        try:
            while work.poll() is None:
                answer = self.ask()
                if answer is not None:
                    answers.append(answer)
                time.sleep(0.1)
        finally:
            work.kill()
            work.wait()
        if work.returncode:
            raise RuntimeError(f"it failed while sqlite3 was beside it:\n{(self.folder / 'visited.log').read_text()[-2000:]}")
        if answers != sorted(answers):
            raise RuntimeError(f"sqlite3 saw commits go away: {answers}")
        self.check()
        return len(answers)

    def killed(self, seconds):
        """Dies at moments spread over its work. Each time the database is whole, and has what sqlite3 saw before."""
        for number in range(KILLS):
            self.settle()
            with open(os.devnull, "w") as nowhere:
                work = subprocess.Popen(list(map(str, self.on_litefoot())), cwd=self.folder, stdout=nowhere, stderr=nowhere, start_new_session=True)
            time.sleep(seconds * (number + 0.5) / KILLS)
            seen = self.ask()
            os.killpg(work.pid, signal.SIGKILL)
            work.wait()
            left = self.ask()
            if seen is not None and (left is None or left < seen):
                raise RuntimeError(f"sqlite3 saw {seen} before the kill, and {left} after it")
            if self.database.exists():
                self.run([PROGRAM, "check", self.database])
                self.check()
        return KILLS


def figures(app):
    """All that is asked of an application."""
    tried = app.tried()
    seconds = tried["litefoot"]["seconds"]
    return {"tried": tried, "visits": app.visited(), "kills": app.killed(seconds)}


def table(found):
    """The table of a page."""
    tried = found["tried"]
    rows = [("commits", "commits", "{:,.0f}"), ("seconds", "seconds", "{:.2f}"), ("commits/s", "commits_per_s", "{:,.0f}"),
            ("bytes/commit", "bytes_per_commit", "{:,.0f}"), ("syncs/commit", "syncs_per_commit", "{:.2f}"),
            ("bytes/commit at the device", "device_bytes_per_commit", "{:,.0f}"),
            ("flushes/commit at the device", "device_flushes_per_commit", "{:.2f}")]
    lines = ["| | stock | litefoot |", "|---|---|---|"]
    for title, key, form in rows:
        values = [tried[side][key] for side in ("stock", "litefoot")]
        if None not in values:
            lines.append(f"| {title} | " + " | ".join(form.format(value) for value in values) + " |")
    lines.append(f"| `sqlite3` beside it | | {found['visits']} looks, each saw all commits before |")
    lines.append(f"| SIGKILL | | {found['kills']} times, whole each time |")
    return "\n".join(lines)


def main(apps):
    """Runs each of these applications, by name and module."""
    failed = 0
    for name, module in apps.items():
        with tempfile.TemporaryDirectory(prefix=f"litefoot-app-{name}-", dir=os.environ.get("LITEFOOT_APPS_DIR", ".")) as folder:
            app = App(name, module, Path(folder).absolute())
            print(f"== {name}: {module.ABOUT}", flush=True)
            try:
                app.install()
                module.prepare(app)
                found = figures(app)
                print(table(found), flush=True)
                for note in found["tried"]["notes"]:
                    print(f"note: {note}", flush=True)
            except Missing as lacks:
                print(f"skipped: {lacks}", flush=True)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                failed += 1
                print(f"FAILED: {error}", flush=True)
    return 1 if failed else 0
