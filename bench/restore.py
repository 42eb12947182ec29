#!/usr/bin/env python3
"""Restores of a database by `litefoot restore` and by `litestream restore`: each of a backup by either, in turns.

    bench/restore.py DIRECTORY LITEFOOT LITESTREAM [MEGABYTES [ROUNDS]]

makes a database of so many megabytes (1000) in DIRECTORY, has both back it up to directories there, and restores each backup with both, ROUNDS times
(3). Each restored database has its rows counted. Times end when the system has synced everything. The files are removed at the end.
"""

import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time


def make(path: str, megabytes: int) -> int:
    """A table with texts and bytes, and an index; answers its rows."""
    database = sqlite3.connect(path)
    database.executescript(
        "PRAGMA journal_mode=wal; CREATE TABLE t(id INTEGER PRIMARY KEY, a, b); CREATE INDEX i ON t(a)"
    )
    while os.path.getsize(path) < megabytes * 1_000_000:
        database.execute(
            "WITH n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 20000) INSERT INTO t(a, b) "
            "SELECT hex(randomblob(12)), hex(randomblob(200)) || randomblob(300) FROM n"
        )
        database.commit()
        database.execute("PRAGMA wal_checkpoint(truncate)")
    rows = database.execute("SELECT count(*) FROM t").fetchone()[0]
    database.close()
    return rows


def run(*command: str, **variables: str) -> None:
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")


def restored(command: list[str], target: str, rows: int) -> float:
    """Restores once; answers the seconds."""
    for name in os.listdir("."):
        if name.startswith(target):
            os.unlink(name)
    os.sync()
    began = time.monotonic()
    run(*command)
    os.sync()
    took = time.monotonic() - began
    database = sqlite3.connect(target)
    found = database.execute("SELECT count(*) FROM t").fetchone()[0]
    database.close()
    if found != rows:
        sys.exit(f"{' '.join(command)}: {found} rows of {rows}")
    return took


def main() -> None:
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    litefoot, litestream = (shutil.which(os.path.abspath(name)) or name for name in sys.argv[2:4])
    megabytes, rounds = (int(given) for given in (sys.argv[4:] + ["1000", "3"][len(sys.argv[4:]) :])[:2])
    with tempfile.TemporaryDirectory(dir=sys.argv[1]) as directory:
        os.chdir(directory)
        rows = make("app.db", megabytes)
        places = {name: f"file://{directory}/{name}" for name in ("litefoot", "litestream")}
        ship = {"LITEFOOT_SHIP_DIRECTORY": f"{directory}/ship"}
        run(litefoot, "ship", "add", "app.db", places["litefoot"], **ship)
        run(litefoot, "ship", "run", "--once", **ship)
        run(litestream, "replicate", "-once", "app.db", places["litestream"])
        times: dict[tuple[str, str], list[float]] = {}
        for _ in range(rounds):
            for by, place in places.items():
                ours = [litefoot, "restore", place, "-o", "out.db"]
                theirs = [litestream, "restore", "-o", "out.db", place]
                for name, command in (("litefoot", ours), ("litestream", theirs)):
                    times.setdefault((by, name), []).append(restored(command, "out.db", rows))
        print(f"{rows} rows, {os.path.getsize('app.db')} bytes; medians of {rounds}, and all, in seconds")
        for (by, name), taken in times.items():
            all_of_them = " ".join(f"{one:.1f}" for one in taken)
            print(f"backup by {by:<11} restored by {name:<11} {statistics.median(taken):5.1f}   {all_of_them}")


if __name__ == "__main__":
    main()
