"""What forked processes do with SQLite: one scenario by its name, in one journal mode, on app.db of this directory."""
import ctypes, os, random, signal, sqlite3, sys, threading, time

scenario, mode = sys.argv[1:3]


def connect(name="app.db", **options):
    return sqlite3.connect(name, isolation_level=None, **{"timeout": 20, **options})


def child(run):
    """Runs in a forked child to its end; its exit status. One that hangs is killed."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        status = 1
        try:
            run()
            status = 0
        except BaseException as error:
            print("child:", repr(error), flush=True)
        sys.stdout.flush()
        os._exit(status)
    return pid


def wait(*children):
    return [os.waitpid(pid, 0)[1] for pid in children]


def count(db):
    return db.execute("SELECT count(*) FROM t").fetchone()[0]


def check(db):
    return count(db), db.execute("PRAGMA integrity_check").fetchone()[0]


db = connect()
db.execute(f"PRAGMA journal_mode={mode}")
db.execute("CREATE TABLE IF NOT EXISTS t(a)")


def in_transaction():
    """The parent is in a transaction: the child can do nothing with that, and ends nothing of it."""
    db.execute("BEGIN")
    db.execute("INSERT INTO t VALUES('parent')")

    def run():
        try:
            # Until it commits, nothing but the memory of SQLite may change.
            db.execute("INSERT INTO t VALUES('child')")
            db.execute("COMMIT")
            print("the child could commit")
        except sqlite3.OperationalError:
            pass
        try:
            db.close()
        except sqlite3.OperationalError:
            pass

    print(wait(child(run)))
    db.execute("INSERT INTO t VALUES('parent')")
    # The lock of a writer is still there.
    stock = os.popen("env -u LD_PRELOAD sqlite3 app.db \"INSERT INTO t VALUES('stock')\" 2>&1").read()
    print("locked" in stock)
    db.execute("COMMIT")
    print(check(db))


def busy_parent():
    """Threads commit, read, open and close while children are forked that open databases of their own."""
    stop, lock = threading.Event(), threading.Lock()

    def work(name, opens):
        own = connect(name)
        own.execute(f"PRAGMA journal_mode={mode}")
        own.execute("CREATE TABLE IF NOT EXISTS t(a)")
        while not stop.is_set():
            own.execute("INSERT INTO t VALUES(zeroblob(3000))")
            own.execute("SELECT sum(length(a)) FROM t").fetchone()
            if opens:
                connect(name).execute("SELECT count(*) FROM t")
        own.close()

    threads = [threading.Thread(target=work, args=(name, name == "b.db")) for name in ["a.db", "a.db", "b.db"]]
    for thread in threads:
        thread.start()

    def run(name):
        own = connect(name)
        own.execute("CREATE TABLE IF NOT EXISTS t(a)")
        own.execute("INSERT INTO t VALUES(1)")
        own.close()

    hung = sum(status != 0 for turn in range(40) for status in wait(child(lambda: run(f"child{turn % 5}.db"))))
    stop.set()
    for thread in threads:
        thread.join()
    print(hung)


def put(db, name, rows):
    """Commits rows one by one; each is seen, and so is everything that was committed before it by anybody."""
    seen = 0
    for row in range(rows):
        db.execute("INSERT INTO t VALUES(?)", (f"{name}-{row}",))
        now = count(db)
        assert now > seen, (name, now, seen)
        seen = now
        own = db.execute("SELECT count(*) FROM t WHERE a LIKE ?", (f"{name}-%",)).fetchone()[0]
        assert own == row + 1, (name, row, own)


def idle_parent():
    """The parent keeps connections open and is idle; its children open the database, and close it."""
    other = connect()
    db.execute("INSERT INTO t VALUES('parent')")
    print(count(db), count(other))
    for turn in range(2):
        def run(name):
            own = connect()
            put(own, name, 10)
            own.close()

        print(wait(*[child(lambda: run(f"{turn}{number}")) for number in range(3)]))
        # Both have read before: nothing of that counts any more.
        print(count(other), count(db))
        other.execute("INSERT INTO t VALUES('other')")
        print(count(db), count(other))
    db.close()
    print(check(other))


def inherited():
    """Children go on with the connections that they have inherited, all at the same time, and so does the parent."""
    other = connect()
    db.execute("BEGIN")
    db.executemany("INSERT INTO t VALUES(?)", [("x" * 900,)] * 50)
    db.execute("COMMIT")
    print(count(db), count(other))

    def run(name):
        db.execute("PRAGMA synchronous=NORMAL")
        put(db, name + "a", 6)
        put(other, name + "b", 6)
        db.close()
        other.close()

    children = [child(lambda: run(f"{number}")) for number in range(3)]
    put(db, "parent", 10)
    print(wait(*children))
    print(count(other), check(db))


def after_deltas():
    """Children go on with the connection of a parent whose commits wait as deltas, and so does the parent with theirs."""
    for row in range(40):
        db.execute("INSERT INTO t VALUES(?)", (row,))

    def run(turn):
        for row in range(20):
            db.execute("INSERT INTO t VALUES(?)", (f"{turn}-{row}",))
        print(count(db))

    for turn in range(3):
        print(wait(child(lambda: run(turn))), count(db))
        db.execute("INSERT INTO t VALUES('parent')")
    print(check(db))


def killed():
    """Children are killed in the middle of transactions; what they were told is safe is there."""
    acknowledged = 0
    for turn in range(6):
        read, write = os.pipe()

        def run():
            own = connect() if turn % 2 else db
            for row in range(turn):
                own.execute("INSERT INTO t VALUES(?)", (f"{turn}-{row}",))
                os.write(write, b"x")
            own.execute("BEGIN IMMEDIATE")
            own.execute("INSERT INTO t VALUES('lost')")
            os.kill(os.getpid(), signal.SIGKILL)

        status = wait(child(run))[0]
        os.close(write)
        acknowledged += len(os.read(read, 100))
        os.close(read)
        assert os.WTERMSIG(status) == signal.SIGKILL, status
        assert count(db) == acknowledged, (count(db), acknowledged)
        db.execute("INSERT INTO t VALUES('parent')")
        acknowledged += 1
    print(db.execute("SELECT count(*) FROM t WHERE a = 'lost'").fetchone()[0], check(db)[1])


def killed_at_random():
    """Relatives commit by turns, and some of them are killed at any moment, the parent among them: whoever is left goes on, and
    what was acknowledged is there, whole."""
    rounds, seed = (int(argument) for argument in (sys.argv[3:] or (4, 1)))
    random.seed(seed)
    # Orphans are this process's children from then on (PR_SET_CHILD_SUBREAPER).
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    log = os.open("acknowledged", os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def rows(number):
        return 60 if number % 7 == 6 else 1

    def work(own, name):
        number = 0
        while not os.path.exists("stop"):
            try:
                own.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                continue
            values = [(f"{name}-{number}",)] * rows(number)
            own.executemany("INSERT INTO t VALUES(?)", values)
            own.execute("COMMIT")
            os.write(log, f"{name}-{number}\n".encode())
            number += 1

    def members(turn, pids):
        own = connect()
        own.execute(f"PRAGMA synchronous={random.choice(['FULL', 'NORMAL'])}")
        count(own)
        children = [
            child(lambda: work(own, f"{turn}.0")),
            child(lambda: work(connect(), f"{turn}.1")),
        ]
        os.write(pids, "".join(f"{pid}\n" for pid in children).encode())
        work(own, f"{turn}.2")
        for pid in children:
            ended_well(os.waitpid(pid, 0)[1])

    def ended_well(status):
        assert status in (0, signal.SIGKILL), status

    def check_all():
        known = {line for line in open("acknowledged").read().split("\n") if line}
        found = dict(db.execute("SELECT a, count(*) FROM t GROUP BY a"))
        torn = [name for name, many in found.items() if many != rows(int(name.rsplit("-", 1)[1]))]
        return len(known - found.keys()), len(torn), check(db)[1]

    for turn in range(rounds):
        read, write = os.pipe()
        pids = [child(lambda: members(turn, write))]
        os.close(write)
        with os.fdopen(read) as lines:
            pids += [int(lines.readline()) for _ in range(2)]
        time.sleep(random.random() / 8)
        victims = random.sample(pids, random.randrange(1, 3))
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        acknowledged, end = os.fstat(log).st_size, time.monotonic() + 50
        while os.fstat(log).st_size == acknowledged:
            assert time.monotonic() < end, "nobody goes on"
            time.sleep(0.002)
        if random.random() < 0.5:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
        open("stop", "w").close()
        # Where the parent is left, it waits for its children.
        while True:
            try:
                ended_well(os.wait()[1])
            except ChildProcessError:
                break
        os.remove("stop")
        result = check_all()
        assert result == (0, 0, "ok"), (turn, result)
    db.close()
    stock = "env -u LD_PRELOAD sqlite3 app.db 'PRAGMA integrity_check' 2>&1"
    print(*result, os.popen(stock).read(), end="")


def closed_in_child():
    """A child closes what it has inherited, or ends without: nothing of the parent's changes."""
    db.execute("INSERT INTO t VALUES(1)")
    before = sorted((name, open(name, "rb").read()) for name in os.listdir("."))
    print(wait(child(db.close), child(lambda: None)))
    print(before == sorted((name, open(name, "rb").read()) for name in os.listdir(".")))
    stock = os.popen("env -u LD_PRELOAD sqlite3 app.db 'SELECT count(*) FROM t' 2>&1").read()
    print("locked" in stock, check(db))


def a_daemon():
    """The parent goes without a word; the child goes on with its connection."""
    db.execute("INSERT INTO t VALUES(1)")
    read, write = os.pipe()
    if os.fork() == 0:
        os.read(read, 1)
        db.execute("INSERT INTO t VALUES(2)")
        print(check(db), flush=True)
        os._exit(0)
    os.close(read)
    os.write(write, b"x")
    os._exit(0)


globals()[scenario]()
