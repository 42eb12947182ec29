#!/bin/sh
# From the file of a package to the first durable commit, in a fresh root of Debian 12 that has nothing but Python, and then nothing but
# its own Node and Go. What was killed on litefoot is read by stock SQLite once the package is gone.
#
# Usage, as root: xtask/smoke/fresh-root.sh [PACKAGES [amd64|arm64|armhf]]   (mmdebstrap; packages by `cargo xtask dist`; for
# another machine's programs qemu-user-static and binfmt-support). Node's driver and Go's are fetched from their registries, with amd64 only.
set -eu
here=$(dirname "$(realpath "$0")")
packages=$(realpath "${1:-target/packages}")
architecture=${2:-amd64}
case $architecture in
    amd64) processor=x86_64 ;;
    arm64) processor=aarch64 ;;
    armhf) processor=armv7l ;;
    *) echo "unknown architecture $architecture" >&2; exit 2 ;;
esac
work=$(mktemp -d)
root=$work/root
trap 'rm -rf "$work"' EXIT
. "$here/in-root.sh"
mmdebstrap --quiet --variant=minbase --architectures="$architecture" --include=python3,python3-pip bookworm "$root"
mount -t proc proc "$root/proc"
trap 'umount "$root/proc"; rm -rf "$work"' EXIT
cp "$packages"/*_"$architecture".deb "$packages"/*manylinux*_$processor.whl "$root/root/"

version=$(ls "$packages" | sed -n "s/^litefoot_\(.*\)_$architecture.deb$/\1/p")
python_twice python3 stock

# The drop-in is made for the machine on which dist runs.
if [ -e "$packages/litefoot-sqlite3_${version}_$architecture.deb" ]; then
    quietly "apt-get install -q -y ./litefoot-sqlite3_*.deb"
    python_twice "LITEFOOT=off python3" stock
    python_twice python3 "$version"
    quietly "dpkg --purge litefoot-sqlite3"
    python_left python3
fi

quietly "apt-get install -q -y ./litefoot_*.deb"
python_twice "litefoot run -- python3" "$version"
quietly "dpkg --purge litefoot"
python_left python3

quietly "pip install -q --root-user-action ignore --break-system-packages ./*.whl"
python_twice python3 stock
python_twice "LITEFOOT=on python3" "$version"
quietly "pip uninstall -q -y --root-user-action ignore --break-system-packages litefoot"
python_left "LITEFOOT=on python3"

if [ "$architecture" = amd64 ]; then
    # A machine behind a proxy trusts more than Debian's certificates.
    cp /etc/ssl/certs/ca-certificates.crt "$root/root/trusted.crt"
    trusted="export NODE_EXTRA_CA_CERTS=/root/trusted.crt SSL_CERT_FILE=/root/trusted.crt"

    # Debian's npm; the Node that has an SQLite inside comes with it as a package of npm's.
    quietly "apt-get update -q; apt-get install -q -y --no-install-recommends npm ca-certificates"
    cp "$packages/litefoot-$version.tgz" "$here/smoke.mjs" "$root/root/"
    quietly "$trusted; npm install --silent --no-audit --no-fund ./litefoot-$version.tgz node@22"
    twice "npx node --import litefoot/register smoke.mjs kill" "$version"
    quietly "npm uninstall --silent --no-audit --no-fund litefoot"
    left "npx node smoke.mjs kill"

    # Debian's own Go is older than the driver asks for.
    echo "deb http://deb.debian.org/debian bookworm-backports main" >"$root/etc/apt/sources.list.d/backports.list"
    quietly "apt-get update -q; apt-get install -q -y --no-install-recommends -t bookworm-backports golang-go gcc libc6-dev"
    mkdir -p "$root/root/application"
    cp "$packages/litefoot-go-$version.tar.gz" "$root/root/"
    cp "$here/smoke.go" "$root/root/application/main.go"
    quietly "tar -xzf litefoot-go-$version.tar.gz; cd application; go mod init application
        go mod edit -replace github.com/litefoot/litefoot/go=/root/litefoot-go-$version; $trusted; go mod tidy; CGO_CFLAGS=-O1 go build -o ../application.out"
    twice "./application.out kill" "$version"
fi
echo "all passed"
