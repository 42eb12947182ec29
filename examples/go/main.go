// Orders with database/sql and mattn/go-sqlite3, which carries an SQLite of its own.
package main

import (
	"database/sql"
	"fmt"
	"log"
	"os"

	"github.com/mattn/go-sqlite3"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// open makes litefoot known, once in a process, and opens a database on it.
func open(name string) *sql.DB {
	library := os.Getenv("LITEFOOT_LIBRARY")
	if library == "" {
		library = "./liblitefoot.so"
	}
	sql.Register("litefoot", &sqlite3.SQLiteDriver{Extensions: []string{library}})
	first, err := sql.Open("litefoot", ":memory:")
	check(err)
	check(first.Ping())
	check(first.Close())
	db, err := sql.Open("litefoot", "file:"+name+"?vfs=litefoot&_journal_mode=WAL")
	check(err)
	return db
}

func order(db *sql.DB, number int) {
	tx, err := db.Begin()
	check(err)
	defer tx.Rollback()
	_, err = tx.Exec("INSERT INTO orders(customer, pieces) VALUES (?, ?)", number%20, number%5+1)
	check(err)
	_, err = tx.Exec("UPDATE stock SET pieces = pieces - ?", number%5+1)
	check(err)
	check(tx.Commit())
}

func main() {
	db := open("orders.db")
	_, err := db.Exec(`CREATE TABLE IF NOT EXISTS orders(id INTEGER PRIMARY KEY, customer INTEGER, pieces INTEGER);
		CREATE TABLE IF NOT EXISTS stock(pieces INTEGER);
		INSERT INTO stock VALUES (10000)`)
	check(err)
	for number := range 500 {
		order(db, number)
	}
	var left, rows, commits int
	check(db.QueryRow("SELECT pieces FROM stock").Scan(&left))
	check(db.QueryRow("SELECT count(*) FROM orders").Scan(&rows))
	check(db.QueryRow("SELECT sum(value) FROM litefoot_stats WHERE name LIKE 'commits_%'").Scan(&commits))
	fmt.Println(left, "pieces are left")
	fmt.Printf("%d rows, %d commits by litefoot\n", rows, commits)
	check(db.Close())
}
