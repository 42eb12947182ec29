#!/usr/bin/env python3
"""Kills `litefoot ship run --once` at each of its calls that writes, one after the other, until a run passes whole.

    python3 bench/ship/kills.py --litefoot target/release/litefoot

Behind each kill the files of the backup are numbered without gaps, each of them can be restored, and the next run brings the backup to the
database. Both are done for a directory with a backup (`file://`) and for one with rows (`jsonl://`). Needs strace.
"""

import argparse, json, os, pathlib, shutil, signal, sqlite3, subprocess, tempfile

# What changes files, names or their durability.
CALLS = "openat,write,pwrite64,writev,pwritev,copy_file_range,sendfile,ftruncate,fallocate,fsync,fdatasync,link,linkat,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,utimensat,fchmod,bind"


def run(command, **more):
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)


def change(path):
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("BEGIN")
    db.execute("UPDATE count SET a = a + 1")
    db.execute("UPDATE other SET a = a - 1")
    db.execute("INSERT OR REPLACE INTO blob SELECT abs(random()) % 50, randomblob(3000)")
    db.execute("COMMIT")
    count = db.execute("SELECT a FROM count").fetchone()[0]
    db.close()
    return count


def counted(path):
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    (count,), (other,) = (db.execute(f"SELECT a FROM {table}").fetchone() for table in ("count", "other"))
    db.close()
    assert count == -other, "half of a transaction was delivered"
    return count


def check_backup(litefoot, directory, least, most):
    names = sorted(name for name in os.listdir(directory / "place/ltx/0") if name.endswith(".ltx"))
    numbers = [tuple(int(part, 16) for part in name[:-4].split("-")) for name in names]
    assert numbers == [(at, at) for at in range(1, len(numbers) + 1)], f"a gap: {names}"
    to = directory / "restored.db"
    to.unlink(missing_ok=True)
    restored = run([litefoot, "restore", f"file://{directory}/place", "-o", to])
    assert restored.returncode == 0, restored.stderr
    count = counted(to)
    assert least <= count <= most, f"{count} is not within {least} and {most}"


def check_rows(litefoot, directory, least, most):
    names = sorted(str(path) for path in (directory / "place").glob("*/*.jsonl"))
    count, last = 0, 0
    for name in names:
        lines = pathlib.Path(name).read_text().splitlines()
        head = json.loads(lines[0])
        assert head["changes"] == len(lines) - 1 and head["batch"] == last + 1, f"{name}: {head}"
        last = head["batch"]
        for line in map(json.loads, lines[1:]):
            if line["table"] == "count" and line["op"] in ("insert", "update"):
                count = line["after"]["a"]
    assert least <= count <= most, f"{count} is not within {least} and {most}"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--litefoot", default="target/release/litefoot")
    options.add_argument("--step", type=int, default=1, help="only each so many-th call")
    options = options.parse_args()
    litefoot = pathlib.Path(options.litefoot).absolute()
    if not shutil.which("strace"):
        print("skipped: strace is not installed")
        return
    for scheme, check in (("file", check_backup), ("jsonl", check_rows)):
        for mode in ("wal", "delete"):
            for is_first in (True, False):
                kills = 0
                with tempfile.TemporaryDirectory() as directory:
                    directory = pathlib.Path(directory)
                    database, ship = directory / "app.db", [litefoot, "ship", "--directory", directory / "jobs"]
                    db = sqlite3.connect(database, isolation_level=None)
                    db.execute(f"PRAGMA journal_mode={mode}")
                    for table in ("count", "other"):
                        db.execute(f"CREATE TABLE {table}(a)")
                        db.execute(f"INSERT INTO {table} VALUES (0)")
                    db.execute("CREATE TABLE blob(id INTEGER PRIMARY KEY, a)")
                    db.close()
                    added = run([*ship, "add", database, f"{scheme}://{directory}/place"])
                    assert added.returncode == 0, added.stderr
                    call, delivered = 1, 0
                    if not is_first:
                        delivered = change(database)
                        assert run([*ship, "run", "--once"]).returncode == 0
                    while True:
                        if is_first:
                            for path in ("place", "jobs"):
                                shutil.rmtree(directory / path, ignore_errors=True)
                            run([*ship, "add", database, f"{scheme}://{directory}/place"])
                            delivered = 0
                        count = change(database)
                        killed = run(["strace", "-f", "-o", "/dev/null", "-e", f"trace={CALLS}", "-e",
                                      f"inject={CALLS}:signal=KILL:when={call}", *ship, "run", "--once"])
                        if killed.returncode == 0:
                            break
                        assert killed.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), (killed.returncode, killed.stderr)
                        kills += 1
                        if not is_first:
                            check(litefoot, directory, delivered, count)
                        again = run([*ship, "run", "--once"])
                        assert again.returncode == 0, again.stderr
                        check(litefoot, directory, count, count)
                        delivered = count
                        call += options.step
                print(f"{scheme:6} {mode:7} {'the first delivery' if is_first else 'a later one':19} {kills:4} kills, 0 wrong", flush=True)


if __name__ == "__main__":
    main()
