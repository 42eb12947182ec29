"""What forked processes do with SQLite: one scenario by its name, in one journal mode, on app.db of this directory."""
import os, signal, sqlite3, sys, threading

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
    # The lock on the file is still there.
    stock = os.popen("env -u LD_PRELOAD sqlite3 app.db 'SELECT count(*) FROM t' 2>&1").read()
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


globals()[scenario]()
