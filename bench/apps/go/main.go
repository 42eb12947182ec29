// Database/sql with mattn/go-sqlite3, which has an SQLite of its own inside: an entry of a journal of accounts, and the
// balances of two of them, in a transaction. It talks with the driver as ../protocol.py describes.
package main

import (
	"bufio"
	"database/sql"
	"fmt"
	"log"
	"math/rand"
	"os"
	"strconv"
	"time"

	"github.com/mattn/go-sqlite3"
)

const accounts = 200

const question = `SELECT name, value FROM litefoot_stats
	WHERE name LIKE 'commits!_%' ESCAPE '!' OR name LIKE '%!_syncs' ESCAPE '!' OR name LIKE '%!_block_bytes' ESCAPE '!'`

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	check(err)
	return value
}

// open makes litefoot known where there is a library of it, and opens a database.
func open(file, journal, synchronous string) *sql.DB {
	driver, name := "sqlite3", "file:"+file+"?_journal_mode="+journal+"&_synchronous="+synchronous
	if library := os.Getenv("LITEFOOT_LIBRARY"); library != "" {
		driver, name = "litefoot", name+"&vfs=litefoot"
		sql.Register(driver, &sqlite3.SQLiteDriver{Extensions: []string{library}})
		first, err := sql.Open(driver, ":memory:")
		check(err)
		check(first.Ping())
		check(first.Close())
	}
	db, err := sql.Open(driver, name)
	check(err)
	db.SetMaxOpenConns(1)
	_, err = db.Exec(`CREATE TABLE account(id INTEGER PRIMARY KEY, balance INTEGER NOT NULL);
		CREATE TABLE entry(id INTEGER PRIMARY KEY AUTOINCREMENT, reference TEXT NOT NULL, source INTEGER, target INTEGER,
			amount INTEGER, at DATETIME DEFAULT CURRENT_TIMESTAMP);
		CREATE UNIQUE INDEX entry_reference ON entry(reference);
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ` + strconv.Itoa(accounts) + `)
		INSERT INTO account SELECT i, 0 FROM n`)
	check(err)
	return db
}

func commit(db *sql.DB, random *rand.Rand) {
	source, target, amount := 1+random.Intn(accounts), 1+random.Intn(accounts), random.Intn(10000)
	tx, err := db.Begin()
	check(err)
	reference := strconv.FormatUint(random.Uint64(), 36)
	_, err = tx.Exec("INSERT INTO entry(reference, source, target, amount) VALUES (?, ?, ?, ?)", reference, source, target, amount)
	check(err)
	_, err = tx.Exec("UPDATE account SET balance = balance - ? WHERE id = ?", amount, source)
	check(err)
	_, err = tx.Exec("UPDATE account SET balance = balance + ? WHERE id = ?", amount, target)
	check(err)
	check(tx.Commit())
}

func figures(db *sql.DB) map[string]int64 {
	figures := map[string]int64{}
	rows, err := db.Query(question)
	if err != nil {
		return figures // There is no litefoot_stats without litefoot.
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var value int64
		check(rows.Scan(&name, &value))
		figures[name] = value
	}
	check(rows.Err())
	return figures
}

func main() {
	log.SetFlags(0)
	// The first is the pattern's name: there is one.
	file, commits, warmup := os.Args[2], number(os.Args[3]), number(os.Args[4])
	input := bufio.NewReader(os.Stdin)
	wait := func() {
		_, err := input.ReadString('\n')
		check(err)
	}
	random := rand.New(rand.NewSource(1))
	db := open(file, os.Args[5], os.Args[6])
	for range warmup {
		commit(db, random)
	}
	before := figures(db)
	fmt.Println("ready")
	wait()
	begun := time.Now()
	for range commits {
		commit(db, random)
	}
	fmt.Println("done", time.Since(begun).Seconds())
	for name, value := range figures(db) {
		fmt.Println("figure", name, value-before[name])
	}
	fmt.Println("end")
	wait()
	check(db.Close())
}
