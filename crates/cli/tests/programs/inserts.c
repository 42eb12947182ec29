/* Inserts rows into a database on litefoot, by whatever SQLite it is linked with, and dies without closing it.
   Every tenth value is bound, the others are part of the text.
   Usage: inserts LIBRARY DATABASE JOURNAL_MODE ROWS */
#include "sqlite3.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void check(sqlite3 *db, int code, int wanted) {
  if (code == wanted) return;
  fprintf(stderr, "error %d: %s\n", code, db ? sqlite3_errmsg(db) : "?");
  exit(1);
}

static int print(void *unused, int columns, char **values, char **names) {
  (void)unused; (void)names;
  for (int i = 0; i < columns; i++) printf("%s\n", values[i] ? values[i] : "NULL");
  return 0;
}

int main(int argc, char **argv) {
  sqlite3 *loader, *db;
  sqlite3_stmt *bound;
  char sql[200];
  if (argc != 5) return 2;
  check(0, sqlite3_open(":memory:", &loader), SQLITE_OK);
  sqlite3_enable_load_extension(loader, 1);
  check(loader, sqlite3_load_extension(loader, argv[1], 0, 0), SQLITE_OK);
  check(0, sqlite3_open_v2(argv[2], &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, "litefoot"), SQLITE_OK);
  snprintf(sql, sizeof sql, "PRAGMA journal_mode=%s; CREATE TABLE IF NOT EXISTS t(a, b);", argv[3]);
  check(db, sqlite3_exec(db, sql, 0, 0, 0), SQLITE_OK);
  check(db, sqlite3_prepare_v2(db, "INSERT INTO t VALUES(?1, zeroblob(900))", -1, &bound, 0), SQLITE_OK);
  for (int i = 0; i < atoi(argv[4]); i++) {
    if (i % 10 == 0) {
      sqlite3_bind_int(bound, 1, i);
      check(db, sqlite3_step(bound), SQLITE_DONE);
      sqlite3_reset(bound);
      continue;
    }
    snprintf(sql, sizeof sql, "BEGIN; INSERT INTO t VALUES(%d, 'a text of some bytes'); UPDATE t SET b = 'text %d' WHERE a = %d; COMMIT",
             i, i % 700, i / 2);
    check(db, sqlite3_exec(db, sql, 0, 0, 0), SQLITE_OK);
  }
  const char *ask = "SELECT sqlite_compileoption_used('ENABLE_BATCH_ATOMIC_WRITE') || sqlite_compileoption_used('ENABLE_ATOMIC_WRITE');"
                    "SELECT count(*) FROM t; PRAGMA litefoot_stats";
  check(db, sqlite3_exec(db, ask, print, 0, 0), SQLITE_OK);
  fflush(stdout);
  _exit(0);
}
