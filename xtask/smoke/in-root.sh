# What the trials in a root of their own share: `root`, a folder, and `work`, where they write, are set by then.

inside() {
    chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
        /bin/sh -euc "cd /root; $1"
}

# The same where it has to succeed, and says nothing unless it does not.
quietly() {
    inside "$1" >"$work/log" 2>&1 || { tail -5 "$work/log" >&2; echo "$1: failed" >&2; exit 1; }
}

# The lines of code: a commit, the version beneath it, and death.
python='import os, sqlite3
db = sqlite3.connect("app.db", isolation_level=None); db.execute("CREATE TABLE IF NOT EXISTS t(x)"); db.execute("INSERT INTO t VALUES (1)")
print(*db.execute("PRAGMA litefoot_version").fetchone() or ["stock"], *db.execute("SELECT count(*) FROM t").fetchone(), flush=True)
os.kill(os.getpid(), 9)'

# What a command says, in a line.
said() {
    inside "$1" 2>/dev/null | tr '\n' ' ' | sed 's/ $//' || true
}

# Runs a command twice, and compares what it says.
twice() {
    rm -f "$root"/root/app.db*
    for rows in 1 2; do
        answer=$(said "$1")
        [ "$answer" = "$2 $rows" ] || { echo "$1: said $answer, not $2 $rows" >&2; exit 1; }
    done
    echo "${3:-$1}: $2"
}

# The same with Python's lines behind the command.
python_twice() {
    twice "$1 -c '$python'" "$2" "$1"
}

# Stock SQLite goes on with the database that the command before has left.
left() {
    answer=$(said "$1")
    [ "$answer" = "stock 3" ] || { echo "removed: $1 said $answer, not stock 3" >&2; exit 1; }
    echo "removed: stock SQLite goes on"
}

python_left() {
    left "$1 -c '$python'"
}
