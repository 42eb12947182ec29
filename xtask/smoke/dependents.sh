#!/bin/sh
# Packages of Debian 12 that depend on libsqlite3-0, on the drop-in: each is installed in a fresh root, and writes a database and
# reads it, or does what it uses SQLite for. Each is run on the system's library as well.
#
# Usage, as root: xtask/smoke/dependents.sh [PACKAGES]   (mmdebstrap; packages by `cargo xtask dist`)
set -u
packages=$(realpath "${1:-target/packages}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mmdebstrap --quiet --variant=minbase bookworm "$work/root" || exit 1
printf '#!/bin/sh\nexit 101\n' >"$work/root/usr/sbin/policy-rc.d" # no service starts
chmod +x "$work/root/usr/sbin/policy-rc.d"
cp "$packages"/litefoot-sqlite3_*_amd64.deb "$work/root/root/" || exit 1
mkdir -p "$work/root/try"
mknod -m 666 "$work/root/dev/urandom" c 1 9 2>/dev/null
mount -t proc proc "$work/root/proc" && trap 'umount "$work/root/proc"; rm -rf "$work"' EXIT

inside() {
    chroot "$work/root" /usr/bin/env DEBIAN_FRONTEND=noninteractive HOME=/try PATH=/usr/sbin:/usr/bin:/sbin:/bin timeout 120 /bin/sh -euc "cd /try; $1"
}

# The package that depends on SQLite, what to install, what to do, and a piece of what it says.
cases() {
    cat <<'CASES'
sqlite3|sqlite3|sqlite3 a.db "CREATE TABLE t(x); INSERT INTO t VALUES (42); DELETE FROM t LIMIT 0; SELECT x FROM t"|42
libpython3.11-stdlib|python3|python3 -c "import sqlite3; d=sqlite3.connect('a.db'); d.execute('CREATE TABLE t(x)'); d.execute('INSERT INTO t VALUES (42)'); d.commit(); print(*sqlite3.connect('a.db').execute('SELECT x FROM t').fetchone())"|42
php8.2-sqlite3|php8.2-cli php8.2-sqlite3|php -r '$d=new SQLite3("a.db"); $d->exec("CREATE TABLE t(x); INSERT INTO t VALUES (42)"); echo $d->querySingle("SELECT x FROM t");'|42
libdbd-sqlite3-perl|libdbd-sqlite3-perl|perl -MDBI -e '$d=DBI->connect("dbi:SQLite:a.db"); $d->do("CREATE TABLE t(x)"); $d->do("INSERT INTO t VALUES (42)"); print $d->selectrow_array("SELECT x FROM t")'|42
ruby-sqlite3|ruby-sqlite3 ruby|ruby -rsqlite3 -e 'd=SQLite3::Database.new("a.db"); d.execute("CREATE TABLE t(x)"); d.execute("INSERT INTO t VALUES (42)"); puts d.execute("SELECT x FROM t").flatten'|42
lua-sql-sqlite3|lua-sql-sqlite3 lua5.3|lua5.3 -e 's=require"luasql.sqlite3".sqlite3(); c=s:connect("a.db"); c:execute("CREATE TABLE t(x)"); c:execute("INSERT INTO t VALUES (42)"); print(c:execute("SELECT x FROM t"):fetch())'|42
lua-dbi-sqlite3|lua-dbi-sqlite3 lua5.3|lua5.3 -e 'c=assert(require"DBI".Connect("SQLite3","a.db")); c:autocommit(true); c:prepare("CREATE TABLE t(x)"):execute(); c:prepare("INSERT INTO t VALUES (42)"):execute(); s=c:prepare("SELECT x FROM t"); s:execute(); print(s:fetch()[1])'|42
libsqlite3-tcl|libsqlite3-tcl tcl|echo 'package require sqlite3; sqlite3 d a.db; d eval {CREATE TABLE t(x); INSERT INTO t VALUES (42)}; puts [d eval {SELECT x FROM t}]' | tclsh|42
python3-apsw|python3-apsw|python3 -c "import apsw; c=apsw.Connection('a.db').cursor(); c.execute('CREATE TABLE t(x); INSERT INTO t VALUES (42)'); print(*c.execute('SELECT x FROM t').fetchone())"|42
node-sqlite3|node-sqlite3|node -e "const s=require('/usr/lib/'+process.arch.replace('x64','x86_64')+'-linux-gnu/nodejs/sqlite3'); const d=new s.Database('a.db'); d.serialize(()=>{d.run('CREATE TABLE t(x)'); d.run('INSERT INTO t VALUES (42)'); d.get('SELECT x FROM t',(e,r)=>console.log(r.x))})"|42
libsvn1|subversion|svnadmin create r; svn checkout -q "file://$PWD/r" c; cd c; echo 42 >f; svn add -q f; svn commit -q -m x; svn update -q; svn cat f|42
librpmdb|rpm|rpm --dbpath /try/db --initdb; rpm --dbpath /try/db --rebuilddb; ls db|rpmdb.sqlite
gpg|gpg gpg-agent|mkdir -m 700 g; gpg --homedir g --batch --passphrase '' --quick-generate-key 'A <a@example.org>' default default never; gpg --homedir g --trust-model tofu --list-keys; ls g|tofu.db
libnss3|libnss3-tools|mkdir n; certutil -N -d sql:n --empty-password; certutil -S -d sql:n -n me -s CN=me -x -t C,, -z /etc/hostname; certutil -L -d sql:n|me
libproj25|proj-bin|projinfo EPSG:25832|ETRS89
libsqliteodbc|libsqliteodbc unixodbc|printf 'CREATE TABLE t(x)\nINSERT INTO t VALUES (42)\nSELECT x FROM t\n' | isql -b -k 'DRIVER=SQLite3;Database=/try/a.db'|42
spatialite-bin|spatialite-bin|spatialite -silent a.db "CREATE TABLE t(x); INSERT INTO t VALUES (42); SELECT x FROM t"|42
postfix-sqlite|postfix postfix-sqlite sqlite3|sqlite3 a.db "CREATE TABLE t(k, v); INSERT INTO t VALUES ('k', '42')"; printf "dbpath = /try/a.db\nquery = SELECT v FROM t WHERE k = '%%s'\n" >q.cf; postmap -q k sqlite:/try/q.cf|42
zabbix-proxy-sqlite3|zabbix-proxy-sqlite3 sqlite3|mkdir z; chmod 777 . z; printf 'Server=127.0.0.1\nHostname=p\nDBName=/try/z/p.db\nLogType=console\nAllowRoot=1\nPidFile=/try/z/pid\nSocketDir=/try/z\n' >z.conf; timeout 8 zabbix_proxy -f -c z.conf >log 2>&1 || true; sqlite3 z/p.db "SELECT count(*) > 100 FROM sqlite_master"|1
pdns-backend-sqlite3|pdns-backend-sqlite3 pdns-server sqlite3|sqlite3 a.db </usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql; mkdir p; printf 'launch=gsqlite3\ngsqlite3-database=/try/a.db\n' >p/pdns.conf; pdnsutil --config-dir=p create-zone example.org; pdnsutil --config-dir=p list-all-zones|example.org
librdf-storage-sqlite|librdf-storage-sqlite redland-utils|rdfproc -q -n -s sqlite store add http://example.org/a http://example.org/b http://example.org/c42; rdfproc -q -s sqlite store print|c42
newsboat|newsboat|printf '"exec:cat /try/feed"\n' >u; printf '<rss version="2.0"><channel><title>t</title><item><title>i</title><guid>1</guid></item></channel></rss>' >feed; newsboat -q -u u -c c.db -x reload; newsboat -q -u u -c c.db -x print-unread|1 unread
libcreaterepo-c0|createrepo-c|mkdir r; createrepo_c -q --database r; ls r/repodata|primary.sqlite
exim4-daemon-heavy|exim4-daemon-heavy sqlite3|sqlite3 a.db "CREATE TABLE t(x); INSERT INTO t VALUES (42)"; exim4 -be '${lookup sqlite,file=/try/a.db {SELECT x FROM t}}'|42
libsqlite3-mod-csvtable|libsqlite3-mod-csvtable sqlite3|echo 42 >f.csv; sqlite3 a.db ".load libsqlite3_mod_csvtable" "SELECT 42"|42
libsqlite3-mod-spatialite|libsqlite3-mod-spatialite sqlite3|sqlite3 a.db ".load mod_spatialite" "SELECT spatialite_version() > '5'"|1
libaprutil1-dbd-sqlite3|apache2 libaprutil1-dbd-sqlite3 sqlite3|sqlite3 a.db "CREATE TABLE t(x)"; printf 'LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so\nLoadModule dbd_module /usr/lib/apache2/modules/mod_dbd.so\nServerName x\nErrorLog /try/log\nPidFile /try/pid\nListen 127.0.0.1:8979\nDBDriver sqlite3\nDBDParams /try/a.db\n' >a.conf; apache2 -t -f /try/a.conf 2>&1|Syntax OK
sqlite3-pcre|sqlite3-pcre sqlite3|sqlite3 a.db ".load /usr/lib/sqlite3/pcre.so" "CREATE TABLE t(x); INSERT INTO t VALUES ('a42'); SELECT substr(x, 2) FROM t WHERE x REGEXP '4.'"|42
libqt5sql5-sqlite|python3-pyqt5.qtsql libqt5sql5-sqlite|python3 -c "from PyQt5.QtSql import *; d=QSqlDatabase.addDatabase('QSQLITE'); d.setDatabaseName('a.db'); d.open(); q=QSqlQuery(); q.exec_('CREATE TABLE t(x)'); q.exec_('INSERT INTO t VALUES (42)'); q.exec_('SELECT x FROM t'); q.next(); print(q.value(0))"|42
minidlna|minidlna sqlite3|mkdir m d; printf 'media_dir=/try/m\ndb_dir=/try/d\nlog_dir=/try\nport=8977\nuser=root\n' >m.conf; timeout 6 minidlnad -R -d -f m.conf -P /try/pid >log 2>&1 || true; sqlite3 d/files.db "SELECT count(*) > 0 FROM sqlite_master"|1
CASES
}

passed=0 failed=0 left_out=0
inside "apt-get update -q" >/dev/null
cases >"$work/cases"
while IFS= read -r line; do
    package=${line%%|*}; rest=${line#*|}; install=${rest%%|*}; rest=${rest#*|}; expected=${rest##*|}; do=${rest%|*}
    if ! inside "apt-get install -q -y --no-install-recommends $install" >"$work/log" 2>&1 </dev/null; then
        echo "$package: NOT TRIED: not installed"; left_out=$((left_out + 1)); continue
    fi
    said=""
    for library in stock litefoot; do
        if [ $library = litefoot ]; then
            inside "apt-get install -q -y /root/litefoot-sqlite3_*.deb" >/dev/null 2>&1 </dev/null
        else
            inside "dpkg --purge litefoot-sqlite3" >/dev/null 2>&1 </dev/null
        fi
        inside "rm -rf /try/* " </dev/null
        answer=$(inside "$do" 2>"$work/error" </dev/null)
        case "$answer" in *"$expected"*) said="$said $library" ;; *) echo "$package on $library: $answer $(tail -2 "$work/error")" ;; esac
    done
    case "$said" in
        " stock litefoot") passed=$((passed + 1)); echo "$package: passed" ;;
        " stock") failed=$((failed + 1)); echo "$package: FAILED" ;;
        *) left_out=$((left_out + 1)); echo "$package: NOT TRIED: does not do it on the system's library either" ;;
    esac
done <"$work/cases"
echo "$passed passed, $failed failed, $left_out not tried"
[ "$failed" -eq 0 ]
