"""kine: what k3s keeps its state in when that is SQLite, in the place of etcd. Its client is etcd's.

kine is compiled with the tag `libsqlite3` of its driver mattn/go-sqlite3: without it SQLite is inside of the program, out of reach of preloading.
"""

import common

ABOUT = "kine, the datastore of k3s: 500 objects are created, and 500 leases renewed"
REQUIREMENTS = []
PYTHON = []
DATABASE = "db/state.db"
COUNT = "SELECT count(*) FROM kine WHERE name LIKE '/registry/pods/%'"
PLACE = common.CACHE / "kine"
MODULES = ("github.com/k3s-io/kine@v0.17.5", "go.etcd.io/etcd/client/v3")

CLIENT = """
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"go.etcd.io/etcd/client/v3"
)

// As the API server of Kubernetes writes: a transaction that compares the revision of the key.
func put(client *clientv3.Client, key string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	read, err := client.Get(ctx, key)
	var revision int64
	if err == nil && len(read.Kvs) > 0 {
		revision = read.Kvs[0].ModRevision
	}
	if err == nil {
		unchanged := clientv3.Compare(clientv3.ModRevision(key), "=", revision)
		_, err = client.Txn(ctx).If(unchanged).Then(clientv3.OpPut(key, fmt.Sprintf("%300d", revision))).Else(clientv3.OpGet(key)).Commit()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, key, err)
		os.Exit(1)
	}
}

func main() {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{os.Args[1]}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	count, _ := strconv.Atoi(os.Args[2])
	for number := 0; number < count; number++ {
		put(client, fmt.Sprintf("/registry/pods/default/%d-%d", time.Now().UnixNano(), number))
		put(client, fmt.Sprintf("/registry/leases/node%d", number%10))
	}
}
"""
OBJECTS = 500

SCRIPT = """
{kine} --endpoint 'sqlite://{database}?_journal=WAL&cache=shared&_busy_timeout=30000&_txlock=immediate' --listen-address {address} 2> kine.log &
server=$!
{client} {address} {objects}
status=$?
kill $server
wait $server
exit $status
"""


def missing():
    return common.absent("go", "gcc", packages="gcc libsqlite3-dev; Go is from go.dev")


def build():
    """Compiles kine and its client, once."""
    if (PLACE / "client").exists():
        return
    PLACE.mkdir(parents=True, exist_ok=True)
    (PLACE / "main.go").write_text(CLIENT)
    (PLACE / "go.mod").unlink(missing_ok=True)
    compile_kine = ["go", "build", "-tags", "libsqlite3", "-o", "kine", MODULES[0].partition("@")[0]]
    for step in (["go", "mod", "init", "reach"], *(["go", "get", module] for module in MODULES), compile_kine, ["go", "build", "-o", "client", "."]):
        common.fetch(step, PLACE)


def prepare(app):
    build()
    app.address = f"127.0.0.1:{common.free_port()}"
    app.database.parent.mkdir()
    app.run(command(app, 1))


def command(app, objects=OBJECTS):
    return ["sh", "-c", SCRIPT.format(kine=PLACE / "kine", client=PLACE / "client", database=app.database, address=app.address, objects=objects)]
