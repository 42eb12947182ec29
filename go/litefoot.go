// Package litefoot puts github.com/mattn/go-sqlite3 on litefoot, a storage layer under unmodified SQLite that makes small durable
// transactions cheap on flash. A blank import is all:
//
//	import _ "github.com/litefoot/litefoot/go"
//
// Every database that the driver "sqlite3" opens is on litefoot then, and stays a database of SQLite's. LITEFOOT=off in the
// environment leaves SQLite as it is. PRAGMA litefoot_version answers nothing without litefoot.
//
// The library is part of the module, for Linux with glibc. A program built with the tag libsqlite3 links the system's SQLite instead:
// for it there is the drop-in libsqlite3.so.0.
package litefoot

import (
	"fmt"
	"os"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// The entry point that also makes litefoot the default VFS.
const entry = "sqlite3_litefootdefault_init"

func init() {
	if os.Getenv("LITEFOOT") == "off" {
		return
	}
	if err := load(); err != nil {
		fmt.Fprintf(os.Stderr, "litefoot: not in use: %v\n", err)
	}
}

// load loads the library through a connection in memory, for the life of the process.
func load() error {
	path, done, err := libraryPath()
	if err != nil {
		return err
	}
	defer done()
	driver := sqlite3.SQLiteDriver{ConnectHook: func(connection *sqlite3.SQLiteConn) error {
		return connection.LoadExtension(path, entry)
	}}
	connection, err := driver.Open(":memory:")
	if err != nil {
		return err
	}
	return connection.Close()
}

// libraryPath is the file that LITEFOOT_LIBRARY names, or the library of this module in a file that is gone when done is called.
func libraryPath() (path string, done func(), err error) {
	if path := os.Getenv("LITEFOOT_LIBRARY"); path != "" {
		return path, func() {}, nil
	}
	library, err := prebuilt.ReadFile(folder + "/liblitefoot.so")
	if err != nil {
		return "", nil, fmt.Errorf("this module has no library for this machine; build it, and name it in LITEFOOT_LIBRARY")
	}
	file, err := os.CreateTemp("", "liblitefoot-*.so")
	if err != nil {
		return "", nil, err
	}
	// The loader keeps what it has mapped.
	done = func() { _ = os.Remove(file.Name()) }
	_, err = file.Write(library)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		done()
		return "", nil, err
	}
	return file.Name(), done, nil
}
