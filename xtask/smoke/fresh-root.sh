#!/bin/sh
# From the file of a package to the first durable commit, in a fresh root of Debian 12 that has nothing but Python. What was killed on
# litefoot is read by stock SQLite once the package is gone.
#
# Usage, as root: xtask/smoke/fresh-root.sh [PACKAGES [amd64|arm64|armhf]]   (mmdebstrap; packages by `cargo xtask dist`; for
# another machine's programs qemu-user-static and binfmt-support)
set -eu
packages=$(realpath "${1:-target/packages}")
architecture=${2:-amd64}
case $architecture in
    amd64) processor=x86_64 ;;
    arm64) processor=aarch64 ;;
    armhf) processor=armv7l ;;
    *) echo "unknown architecture $architecture" >&2; exit 2 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mmdebstrap --quiet --variant=minbase --architectures="$architecture" --include=python3,python3-pip bookworm "$work/root"
mount -t proc proc "$work/root/proc"
trap 'umount "$work/root/proc"; rm -rf "$work"' EXIT
cp "$packages"/*_"$architecture".deb "$packages"/*manylinux*_$processor.whl "$work/root/root/"

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

# Stock SQLite goes on with the database that the command before has left.
left() {
    said=$(inside "$1 -c '$python'" 2>/dev/null || true)
    [ "$said" = "stock 3" ] || { echo "removed: $1 said $said, not stock 3" >&2; exit 1; }
    echo "removed: stock SQLite goes on"
}

version=$(ls "$packages" | sed -n "s/^litefoot_\(.*\)_$architecture.deb$/\1/p")
twice python3 stock

# The drop-in is made for the machine on which dist runs.
if [ -e "$packages/litefoot-sqlite3_${version}_$architecture.deb" ]; then
    inside "apt-get install -q -y ./litefoot-sqlite3_*.deb" >/dev/null 2>&1
    twice "LITEFOOT=off python3" stock
    twice python3 "$version"
    inside "dpkg --purge litefoot-sqlite3" >/dev/null 2>&1
    left python3
fi

inside "apt-get install -q -y ./litefoot_*.deb" >/dev/null 2>&1
twice "litefoot run -- python3" "$version"
inside "dpkg --purge litefoot" >/dev/null 2>&1
left python3

inside "pip install -q --root-user-action ignore --break-system-packages ./*.whl"
twice python3 stock
twice "LITEFOOT=on python3" "$version"
inside "pip uninstall -q -y --root-user-action ignore --break-system-packages litefoot"
left "LITEFOOT=on python3"
echo "all passed"
