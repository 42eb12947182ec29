#!/bin/bash
# From the file of a package to the first durable commit in a root without glibc. What was killed on litefoot is read by stock SQLite once
# the package is gone.
#
# Usage, as root: xtask/smoke/musl-root.sh [PACKAGES [MINIROOTFS]]   (packages by `cargo xtask dist`)
# MINIROOTFS is the archive of that name which Alpine offers. With it the root is Alpine's, and so is Python, where Alpine's mirror answers. Otherwise
# Python is built with musl's compiler (musl-tools, dpkg-dev), from the sources of Debian's archive and of SQLite in cargo's cache. It stays in
# ~/.cache/litefoot-musl-root. Without an archive the root has musl's loader and busybox (busybox-static).
set -eu
here=$(dirname "$(realpath "$0")")
packages=$(realpath "${1:-target/packages}")
archive=${2:-}
built=${XDG_CACHE_HOME:-$HOME/.cache}/litefoot-musl-root
work=$(mktemp -d)
root=$work/root
trap 'rm -rf "$work"' EXIT
. "$here/in-root.sh"

# Fetches the sources of Debian 12, without a change to this machine's lists.
fetch() {
    mkdir -p "$work/lists/partial"
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main" >"$work/sources.list"
    local options=(-q -o APT::Sandbox::User=root -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$work/lists")
    apt-get "${options[@]}" update
    (cd "$built" && apt-get "${options[@]}" source --download-only python3.11 zlib && tar -xf python3.11_*.orig.tar.* && tar -xf zlib_*.orig.tar.*)
}

# Builds Python with musl's compiler, and without the folders of glibc that its setup.py looks into.
build() {
    local sqlite
    sqlite=$(ls -d "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/libsqlite3-sys-*/sqlite3 | tail -1)
    mkdir -p "$built/lib" "$built/include"
    cat >"$built/cc" <<'CC'
#!/bin/bash
[ "$1" != --print-multiarch ] || { echo x86_64-linux-musl; exit 0; }
arguments=()
for argument; do case $argument in -I/usr/* | -L/usr/* | -L/lib/*) ;; *) arguments+=("$argument") ;; esac; done
exec musl-gcc "${arguments[@]}"
CC
    chmod +x "$built/cc"
    (cd "$built"/zlib-* && CC=musl-gcc CFLAGS="-O2 -fPIC" ./configure --static && make libz.a && cp libz.a ../lib && cp zlib.h zconf.h ../include)
    cp "$sqlite/sqlite3.h" "$built/include"
    musl-gcc -O2 -fPIC -shared -Wl,-soname,libsqlite3.so.0 -o "$built/lib/libsqlite3.so.0" "$sqlite/sqlite3.c"
    ln -sf libsqlite3.so.0 "$built/lib/libsqlite3.so"
    cd "$built"/Python-*
    CC="$built/cc" CPPFLAGS="-I$built/include" LDFLAGS="-L$built/lib" ./configure -q --prefix=/usr --with-ensurepip=no --disable-test-modules --enable-loadable-sqlite-extensions
    # What it has built is tried at once, and some of it is not there with musl.
    LD_LIBRARY_PATH="$built/lib" make -s -j"$(nproc)"
    LD_LIBRARY_PATH="$built/lib" make -s install DESTDIR="$built/python"
    touch "$built/done"
}

# A root of musl's loader and busybox.
make_root() {
    mkdir -p "$root"/{bin,lib,usr/bin,tmp,dev}
    cp "$(command -v busybox)" "$root/bin/busybox"
    for applet in sh env rm cat ls tar tr sed; do ln -s busybox "$root/bin/$applet"; done
    ln -s ../../bin/busybox "$root/usr/bin/env"
    cp -L /lib/ld-musl-x86_64.so.1 "$root/lib/"
}

# Puts a Python there that was built.
put_python() {
    for tool in musl-gcc dpkg-source; do
        command -v $tool >/dev/null || { echo "there is no $tool (apt install musl-tools dpkg-dev)" >&2; exit 2; }
    done
    if [ ! -e "$built/done" ]; then
        echo "building Python with musl, some minutes, in $built"
        rm -rf "$built"
        mkdir -p "$built"
        (set -e; fetch; build) >"$work/log" 2>&1 || { tail -20 "$work/log" >&2; exit 1; }
    fi
    cp -a "$built/python/." "$root/"
    cp "$built/lib/libsqlite3.so.0" "$root/usr/lib/"
    quietly "python3 -m ensurepip"
}

mkdir -p "$root/root" "$root/proc"
if [ -n "$archive" ]; then tar -xzf "$archive" -C "$root"; else make_root; fi
[ -e "$root/dev/null" ] || mknod -m 666 "$root/dev/null" c 1 3
[ -e "$root/dev/urandom" ] || mknod -m 666 "$root/dev/urandom" c 1 9
mount -t proc proc "$root/proc"
trap 'umount "$root/proc"; rm -rf "$work"' EXIT
cp /etc/resolv.conf "$root/etc/" 2>/dev/null || true
if [ -n "$archive" ] && inside "timeout 60 apk add --no-cache python3 py3-pip" >"$work/log" 2>&1; then
    echo "$(inside "cat /etc/alpine-release"): Alpine, and its Python"
else
    put_python
    [ -z "$archive" ] || echo "$(inside "cat /etc/alpine-release"): Alpine; its mirror does not answer, and Python was built"
fi
tarball=$(ls "$packages"/litefoot-*-x86_64-linux-musl.tar.gz)
version=$(basename "$tarball" | sed 's/^litefoot-\(.*\)-x86_64-linux-musl.*/\1/')
cp "$tarball" "$packages"/litefoot-"$version"-*musllinux*_x86_64.whl "$root/root/"
python_twice python3 stock

quietly "tar -xzf litefoot-*.tar.gz"
python_twice "litefoot-$version-x86_64-linux-musl/bin/litefoot run -- python3" "$version"
quietly "rm -r litefoot-$version-x86_64-linux-musl"
python_left python3

quietly "export PIP_BREAK_SYSTEM_PACKAGES=1; python3 -m pip install -q --root-user-action ignore --no-index ./*.whl"
python_twice "LITEFOOT=on python3" "$version"
quietly "export PIP_BREAK_SYSTEM_PACKAGES=1; python3 -m pip uninstall -q -y --root-user-action ignore litefoot"
python_left "LITEFOOT=on python3"
echo "all passed"
