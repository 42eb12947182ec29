#!/bin/bash
# From the file of a package to the first durable commit in a root without glibc: musl's loader, busybox, and a Python that is built with
# musl's compiler from Debian's source package, as in Alpine. What was killed on litefoot is read by stock SQLite once the package is gone.
#
# Usage, as root: xtask/smoke/musl-root.sh [PACKAGES]   (musl-tools, busybox-static, dpkg-dev; packages by `cargo xtask dist`).
# Python's and zlib's sources come from Debian's archive, and SQLite's from cargo's cache. What is built stays in ~/.cache/litefoot-musl-root.
set -eu
here=$(dirname "$(realpath "$0")")
packages=$(realpath "${1:-target/packages}")
built=${XDG_CACHE_HOME:-$HOME/.cache}/litefoot-musl-root
for tool in musl-gcc busybox dpkg-source; do
    command -v $tool >/dev/null || { echo "there is no $tool (apt install musl-tools busybox-static dpkg-dev)" >&2; exit 2; }
done
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

if [ ! -e "$built/done" ]; then
    echo "building Python with musl, some minutes, in $built"
    rm -rf "$built"
    mkdir -p "$built"
    (set -e; fetch; build) >"$work/log" 2>&1 || { tail -20 "$work/log" >&2; exit 1; }
fi

mkdir -p "$root/bin" "$root/lib" "$root/root" "$root/tmp" "$root/proc" "$root/dev"
cp "$(command -v busybox)" "$root/bin/busybox"
for applet in sh env rm cat ls tar tr sed; do ln -s busybox "$root/bin/$applet"; done
mkdir -p "$root/usr/bin" && ln -s ../../bin/busybox "$root/usr/bin/env"
cp -L /lib/ld-musl-x86_64.so.1 "$root/lib/"
cp -a "$built/python/." "$root/"
cp "$built/lib/libsqlite3.so.0" "$root/usr/lib/"
mknod -m 666 "$root/dev/null" c 1 3
mknod -m 666 "$root/dev/urandom" c 1 9
mount -t proc proc "$root/proc"
trap 'umount "$root/proc"; rm -rf "$work"' EXIT
tarball=$(ls "$packages"/litefoot-*-x86_64-linux-musl.tar.gz)
version=$(basename "$tarball" | sed 's/^litefoot-\(.*\)-x86_64-linux-musl.*/\1/')
cp "$tarball" "$packages"/litefoot-"$version"-*musllinux*_x86_64.whl "$root/root/"
quietly "python3 -m ensurepip"
python_twice python3 stock

quietly "tar -xzf litefoot-*.tar.gz"
python_twice "litefoot-$version-x86_64-linux-musl/bin/litefoot run -- python3" "$version"
quietly "rm -r litefoot-$version-x86_64-linux-musl"
left python3

quietly "python3 -m pip install -q --root-user-action ignore --no-index ./*.whl"
python_twice "LITEFOOT=on python3" "$version"
quietly "python3 -m pip uninstall -q -y --root-user-action ignore litefoot"
left "LITEFOOT=on python3"
echo "all passed"
