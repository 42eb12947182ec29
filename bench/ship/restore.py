#!/usr/bin/env python3
"""Restores the same backups with litefoot and with Litestream, in turns.

    python3 bench/ship/restore.py --megabytes 1024 --runs 5

Both restore both: a backup that litefoot has made, and one of Litestream's. Each backup is a whole database and some changes behind it. Before each
run the files of the backup are in the system's cache, so that the programs are compared, and not the disk. The restored files must be equal.
"""

import argparse, os, pathlib, random, shutil, sqlite3, statistics, subprocess, tempfile, time


def run(command, **more):
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)


def rows(count, seed):
    """Rows as applications have them: some text that packs well, some bytes that do not."""
    chance = random.Random(seed)
    words = [chance.randbytes(4).hex() for _ in range(2000)]
    for _ in range(count):
        yield (" ".join(chance.choices(words, k=60)), chance.randbytes(300))


def make(path, megabytes):
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("CREATE TABLE note(id INTEGER PRIMARY KEY, text TEXT, data BLOB)")
    seed = 0
    while os.path.getsize(path) < megabytes << 20:
        db.execute("BEGIN")
        db.executemany("INSERT INTO note(text, data) VALUES (?, ?)", rows(20_000, seed))
        db.execute("COMMIT")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        seed += 1
    return db


def change(db, seed):
    chance = random.Random(seed)
    top = db.execute("SELECT max(id) FROM note").fetchone()[0]
    db.execute("BEGIN")
    for text, data in rows(200, seed):
        db.execute("UPDATE note SET text = ?, data = ? WHERE id = ?", (text, data, chance.randrange(top)))
    db.execute("COMMIT")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--megabytes", type=int, default=1024)
    options.add_argument("--runs", type=int, default=5)
    options.add_argument("--changes", type=int, default=10)
    options.add_argument("--directory", default=None, help="where the files are made")
    options.add_argument("--litefoot", default="target/release/litefoot")
    options.add_argument("--litestream", default=shutil.which("litestream") or "litestream")
    options = options.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        directory = pathlib.Path(directory)
        database, ship = directory / "app.db", [options.litefoot, "ship", "--directory", directory / "jobs"]
        db = make(database, options.megabytes)
        urls = {maker: f"file://{directory / maker}" for maker in ("litefoot", "litestream")}
        run([*ship, "add", database, urls["litefoot"]])
        for seed in range(options.changes + 1):
            run([*ship, "run", "--once"])
            run([options.litestream, "replicate", "-once", database, urls["litestream"]])
            change(db, seed)
        db.close()
        programs = {
            "litefoot": lambda url, to: run([options.litefoot, "restore", url, "-o", to]),
            "litestream": lambda url, to: run([options.litestream, "restore", "-o", to, url]),
        }
        for maker, url in urls.items():
            files = [file for file in (directory / maker).rglob("*.ltx")]
            seconds = {program: [] for program in programs}
            for _ in range(options.runs):
                for file in files:
                    file.read_bytes()
                results = []
                for program, restore in programs.items():
                    to = directory / f"{program}.db"
                    began = time.monotonic()
                    restore(url, to)
                    seconds[program].append(time.monotonic() - began)
                    results.append(to)
                run(["cmp", *results])
                for to in results:
                    to.unlink()
            medians = {program: statistics.median(taken) for program, taken in seconds.items()}
            total = sum(file.stat().st_size for file in files)
            print(f"backup of {maker}: {len(files)} files, {total / 1e6:.0f} MB; database {database.stat().st_size / 1e6:.0f} MB")
            for program, taken in seconds.items():
                print(f"  {program:10} {medians[program]:6.2f} s   ({', '.join(f'{each:.2f}' for each in taken)})")
            print(f"  ratio      {medians['litestream'] / medians['litefoot']:6.2f}")


if __name__ == "__main__":
    main()
