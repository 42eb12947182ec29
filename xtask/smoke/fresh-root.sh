#!/bin/sh
# From the file of a package to the first durable commit, in a fresh root of Debian 12 that has nothing but Python.
#
# Usage, as root: xtask/smoke/fresh-root.sh [PACKAGES]   (mmdebstrap; packages by `cargo xtask dist`)
set -eu
packages=$(realpath "${1:-target/packages}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mmdebstrap --quiet --variant=minbase --include=python3,python3-pip bookworm "$work/root"
mount -t proc proc "$work/root/proc"
trap 'umount "$work/root/proc"; rm -rf "$work"' EXIT
cp "$packages"/*.deb "$packages"/*manylinux*_x86_64.whl "$work/root/root/"

inside() {
    chroot "$work/root" /bin/sh -euc "cd /root; $1"
}

# The lines of code: a commit, the version beneath it, and death.
python='import os, sqlite3
db = sqlite3.connect("app.db", isolation_level=None); db.execute("CREATE TABLE IF NOT EXISTS t(x)"); db.execute("INSERT INTO t VALUES (1)")
print(*db.execute("PRAGMA litefoot_version").fetchone() or ["stock"], *db.execute("SELECT count(*) FROM t").fetchone(), flush=True)
os.kill(os.getpid(), 9)'

# Runs a command twice, and compares what it says.
twice() {
    rm -f "$work"/root/root/app.db*
    for rows in 1 2; do
        said=$(inside "$1 -c '$python'" 2>/dev/null || true)
        [ "$said" = "$2 $rows" ] || { echo "$1: said $said, not $2 $rows" >&2; exit 1; }
    done
    echo "$1: $2"
}

version=$(ls "$packages" | sed -n 's/^litefoot_\(.*\)_amd64.deb$/\1/p')
twice python3 stock

inside "apt-get install -q -y ./litefoot-sqlite3_*.deb" >/dev/null 2>&1
twice python3 "$version"
twice "LITEFOOT=off python3" stock
inside "dpkg --purge litefoot-sqlite3" >/dev/null 2>&1
twice python3 stock

inside "apt-get install -q -y ./litefoot_*.deb" >/dev/null 2>&1
twice "litefoot run -- python3" "$version"
inside "dpkg --purge litefoot" >/dev/null 2>&1

inside "pip install -q --root-user-action ignore --break-system-packages ./*.whl"
twice "LITEFOOT=on python3" "$version"
twice python3 stock
inside "pip uninstall -q -y --root-user-action ignore --break-system-packages litefoot"
twice "LITEFOOT=on python3" stock
echo "all passed"
