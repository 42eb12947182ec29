// The smoke test of packages: inserts a row, says who is beneath and how many rows there are, and dies if told to.
package main

import (
	"database/sql"
	"fmt"
	"os"
	"syscall"

	_ "github.com/litefoot/litefoot/go"
	_ "github.com/mattn/go-sqlite3"
)

func main() {
	db, err := sql.Open("sqlite3", "app.db")
	check(err)
	_, err = db.Exec("CREATE TABLE IF NOT EXISTS t(x); INSERT INTO t VALUES (1)")
	check(err)
	version, rows := "stock", 0
	_ = db.QueryRow("PRAGMA litefoot_version").Scan(&version)
	check(db.QueryRow("SELECT count(*) FROM t").Scan(&rows))
	fmt.Printf("%s\n%d\n", version, rows)
	if len(os.Args) > 1 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
