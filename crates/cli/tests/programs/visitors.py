"""What an application does to whose database others come: one scenario by its name, in one journal mode, on app.db here.

Visitors are the program `sqlite3`, and `cp` and `cat`, on SQLite as it is. A scenario prints who of them was served.
"""
import os, signal, sqlite3, subprocess, sys

scenario, mode = sys.argv[1:3]
# Less than the kernel makes an opener wait for a lease: nobody may need that.
signal.alarm(40)
STOCK = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
PIPES = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "env": STOCK}


def connect():
    return sqlite3.connect("app.db", isolation_level=None, timeout=20)


def count(db, who="owner"):
    return db.execute("SELECT count(*) FROM t WHERE a = ?", (who,)).fetchone()[0]


def commit(db, many=1):
    for _ in range(many):
        db.execute("INSERT INTO t VALUES('owner')")


def start(*words, database="app.db"):
    return subprocess.Popen(["sqlite3", "-batch", "-bail", database, *words], **PIPES)


def visit(*words, database="app.db"):
    """What a shell without a busy timeout prints; None where it was refused."""
    shell = start(*words, database=database)
    said = shell.communicate()[0].strip()
    is_fine = shell.returncode == 0 and not said.endswith("due to errors")
    assert is_fine or "locked" in said, said
    return said if is_fine else None


def answer(said):
    """A refusal, or what a visitor has read."""
    return "refused" if said is None else said


OWNERS = "SELECT count(*) FROM t WHERE a='owner'"

db = connect()
db.execute(f"PRAGMA journal_mode={mode}")
db.execute("CREATE TABLE IF NOT EXISTS t(a)")
db.execute("CREATE INDEX IF NOT EXISTS t_a ON t(a)")


def select(known):
    said = visit(OWNERS)
    assert said is None or said == str(known), (said, known)
    return said


def backup(known):
    said = visit(".backup copy.db")
    if said is not None:
        assert visit(OWNERS, "PRAGMA integrity_check", database="copy.db") == f"{known}\nok", known
    return said


def dump(known):
    said = visit(".dump")
    assert said is None or said.count("'owner'") == known, known
    return said


def copy(_known):
    names = filter(os.path.exists, ["app.db", "app.db-wal", "app.db-journal"])
    # By another program: SQLite's locks do not survive that this process opens and closes the file.
    copied = subprocess.run(["cp", *names, "copies"], **PIPES)
    # A log or journal may go at any moment, as with stock SQLite.
    assert copied.returncode == 0 or "No such file" in copied.stdout, copied.stdout
    return copied.stdout


def kill(_known):
    """Somewhere in a transaction that does not end in time."""
    shell = start("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<1e7) INSERT INTO t SELECT 'killed' FROM n")
    try:
        shell.wait(0.03)
    except subprocess.TimeoutExpired:
        shell.kill()
        shell.wait()
    return ""


VISITS = {
    "select": select,
    "insert": lambda _known: visit("INSERT INTO t VALUES('visitor')"),
    "backup": backup,
    "checkpoint": lambda _known: visit("PRAGMA wal_checkpoint(TRUNCATE)"),
    "killed": kill,
    "dump": dump,
    "vacuum": lambda _known: visit("VACUUM"),
    "cp": copy,
    "journal_mode": lambda _known: visit("PRAGMA journal_mode=WAL; PRAGMA journal_mode=DELETE"),
}


def all_kinds():
    """Everybody comes twice, the second time beside a reader with a snapshot where the mode has such readers."""
    other, known, inserted, refused = connect(), 0, 0, []
    os.mkdir("copies")
    for turn in range(2):
        for name, run in VISITS.items():
            commit(db, 3)
            known += 3
            holds = turn == 1 and mode == "wal"
            if holds:
                other.execute("BEGIN")
                before = count(other)
            commit(db)
            known += 1
            said = run(known)
            if said is None:
                refused.append(name)
            elif name == "insert":
                inserted += 1
            if holds:
                assert count(other) == before, (name, before)
                other.execute("COMMIT")
            for reader in (db, other):
                assert (count(reader), count(reader, "visitor"), count(reader, "killed")) == (known, inserted, 0), name
    print("refused:", *refused)
    print(known, inserted, db.execute("PRAGMA integrity_check").fetchone()[0])


def reader_inside():
    """A connection reads when the first visitor comes, and goes on."""
    commit(db, 3)
    other = connect()
    other.execute("BEGIN")
    assert count(other) == 3
    # In WAL mode the visitor sees more than the reader.
    known = 3
    if mode == "wal":
        commit(db)
        known = 4
    said = [answer(select(known))]
    # Beside a reader nobody writes but in WAL mode.
    inserted = visit("INSERT INTO t VALUES('visitor')")
    visit("PRAGMA wal_checkpoint(PASSIVE)")
    said.append("refused" if inserted is None else "inserted")
    if mode == "wal":
        commit(db)
    assert (count(other), count(other, "visitor")) == (3, 0)
    other.execute("COMMIT")
    # It goes on to write.
    other.execute("INSERT INTO t VALUES('reader')")
    said.append("refused" if visit("INSERT INTO t VALUES('visitor')") is None else "inserted")
    print(*said, *(count(each, who) for each in (db, other) for who in ("owner", "reader", "visitor")))
    print(db.execute("PRAGMA integrity_check").fetchone()[0])


def opens_its_own_file():
    """The thread that has a transaction open opens the file of the database, and so does a program that it waits for."""
    db.execute("BEGIN IMMEDIATE")
    commit(db)
    with open("app.db", "rb") as file:
        print(len(file.read(16)))
    print(subprocess.run(["cat", "app.db"], stdout=subprocess.DEVNULL, env=STOCK).returncode)
    commit(db)
    db.execute("COMMIT")
    # Those who came during the transaction were not kept waiting, so the next one may come before it is all home.
    print(count(db), answer(visit("-cmd", ".timeout 2000", OWNERS)))


def many_at_once():
    """Two hundred visitors, between commits."""
    shells = []
    for number in range(200):
        shells.append(start("-cmd", ".timeout 8000", OWNERS))
        if number % 10 == 0:
            commit(db)
    said = [(shell.communicate()[0].strip(), shell.returncode) for shell in shells]
    served = [int(text) for text, status in said if status == 0]
    # A shell was started after a commit for each ten before it, begun ones included.
    assert all(status == 0 or "locked" in text for text, status in said), said
    assert len(served) < 200 or all(seen >= (number + 9) // 10 for number, seen in enumerate(served)), served
    print("served" if len(served) == 200 else "refused", count(db))


def stopped():
    """The owner is stopped for a second while a visitor comes."""
    commit(db, 3)
    script = f'kill -STOP $PPID; sqlite3 -batch app.db "{OWNERS}" 2>&1 & sleep 1; kill -CONT $PPID; wait $!'
    said = subprocess.run(["sh", "-c", script], **PIPES).stdout.strip()
    commit(db)
    print("refused" if "locked" in said else said, count(db), answer(select(4)))


def forked():
    """The owner has a child that has inherited its connection, and lives longer than the visit."""
    commit(db, 3)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    os.close(read)
    commit(db)
    print(answer(select(4)))
    commit(db)
    os.close(write)
    print(os.waitpid(child, 0)[1], count(db), answer(select(5)))


def a_daemon():
    """The parent is gone, and has left its connection to a child."""
    commit(db, 3)
    read, write = os.pipe()
    if os.fork():
        os._exit(0)
    signal.alarm(40)
    os.close(write)
    # Until the parent is gone.
    os.read(read, 1)
    commit(db)
    print(answer(select(4)))
    commit(db)
    print(count(db), answer(select(5)))


def executes():
    """The process becomes another program with its connection open; that one has what was committed."""
    if len(sys.argv) == 3:
        commit(db, 3)
        os.execv(sys.executable, [sys.executable, *sys.argv, "again"])
    print(count(db), answer(select(3)))
    commit(db)
    print(count(db), answer(select(4)))


globals()[scenario]()
