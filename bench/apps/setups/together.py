"""What the setups of `litefoot bench setups` share: servers and workers, clients, and what is told at the end.

    SETUP.py NAME SECONDS

A setup has its database in the current directory. Its servers and workers run on litefoot if SETUP_PRELOAD names the library; this
process, its clients and its cron jobs are on SQLite as it is. At the end it prints lines for the driver:

    requests N | seconds S | p99_ms MS | error COUNT TEXT | lost COUNT | check ok
"""

import collections
import http.client
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time

CLIENTS = 4
NAME, SECONDS = sys.argv[1], float(sys.argv[2])
HERE = os.path.dirname(os.path.abspath(__file__))
DATABASE = "app.db"


def start(*command, **more):
    """A server or worker: on litefoot, if that is the side."""
    environment = {**os.environ, "PYTHONPATH": HERE + os.pathsep + os.environ.get("PYTHONPATH", "")}
    if "SETUP_PRELOAD" in os.environ:
        environment["LD_PRELOAD"] = os.environ["SETUP_PRELOAD"]
    with open("log", "ab") as log:
        streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, **more}
        return subprocess.Popen([sys.executable, *command], env=environment, **streams)


def stop(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Load:
    """Work by several clients, and a cron job, for so many seconds."""

    def __init__(self):
        self.took, self.errors, self.stored, self.lock = [], collections.Counter(), 0, threading.Lock()
        self.end = time.monotonic() + SECONDS

    def note(self, begun, error=None, stored=0):
        with self.lock:
            self.took.append(time.monotonic() - begun)
            self.stored += stored
            if error:
                self.errors[str(error).strip().replace("\n", " ")[-200:] or "no reason given"] += 1

    def repeat(self, turn, pause=0.0):
        number = 0
        while time.monotonic() < self.end:
            begun = time.monotonic()
            try:
                self.note(begun, stored=turn(number))
            except Exception as error:  # Whatever keeps a client from its answer is what is counted.
                self.note(begun, error)
            number += 1
            time.sleep(pause)

    def run(self, *turns):
        """Each turn in a thread of its own: a function, or one with its pause."""
        pairs = [turn if isinstance(turn, tuple) else (turn, 0.0) for turn in turns]
        threads = [threading.Thread(target=self.repeat, args=pair) for pair in pairs]
        begun = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.seconds = time.monotonic() - begun

    def tell(self, table):
        """Once all servers have ended: what SQLite as it is finds."""
        took = sorted(self.took)
        print("requests", len(took))
        print("seconds", self.seconds)
        print("p99_ms", 1000 * took[int(len(took) * 0.99)] if took else 0)
        for text, count in self.errors.items():
            print("error", count, text)
        db = sqlite3.connect(DATABASE, timeout=20)
        found = db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        print("lost", max(0, self.stored - found))
        print("check", db.execute("PRAGMA integrity_check").fetchone()[0])


class Unix(http.client.HTTPConnection):
    """HTTP over a socket file, so that no port is taken."""

    def __init__(self, path):
        super().__init__("localhost", timeout=30)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def ask(method, path, place="http.sock"):
    connection = Unix(place)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
    finally:
        connection.close()
    if answer.status != 200:
        raise RuntimeError(f"{answer.status} {text}")
    return text


def wait_for(path, place="http.sock"):
    end = time.monotonic() + 60
    while True:
        try:
            return ask("GET", path, place)
        except (OSError, RuntimeError, http.client.HTTPException):
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def requests(number):
    """Every second request stores a row."""
    if number % 2:
        ask("GET", "/last")
        return 0
    ask("POST", "/store")
    return 1


def shell(sql):
    """A cron job, without a busy timeout."""
    done = subprocess.run(["sqlite3", "-batch", "-bail", DATABASE, sql], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError("sqlite3: " + done.stderr)
    return done.stdout
