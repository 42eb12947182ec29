/* A program that is linked with SQLite and knows nothing of litefoot: inserts a row, and says who is beneath and how many
   rows there are.
   Usage: smoke DATABASE JOURNAL_MODE [kill|shutdown]: dies without closing, or begins again after sqlite3_shutdown. */
#include "sqlite3.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>

static int print(void *unused, int columns, char **values, char **names) {
  (void)unused; (void)names;
  for (int i = 0; i < columns; i++) printf("%s\n", values[i] ? values[i] : "NULL");
  return 0;
}

int main(int argc, char **argv) {
  sqlite3 *db;
  char sql[200], *why = 0;
  if (argc < 3) return 2;
  if (argc > 3 && !strcmp(argv[3], "shutdown") && (sqlite3_initialize() || sqlite3_shutdown())) return 3;
  if (sqlite3_open(argv[1], &db)) return fprintf(stderr, "%s\n", sqlite3_errmsg(db)), 1;
  snprintf(sql, sizeof sql, "PRAGMA journal_mode=%s; CREATE TABLE IF NOT EXISTS t(x); INSERT INTO t VALUES (1); "
           "PRAGMA litefoot_version; SELECT count(*) FROM t", argv[2]);
  if (sqlite3_exec(db, sql, print, 0, &why)) return fprintf(stderr, "%s\n", why), 1;
  fflush(stdout);
  if (argc > 3 && !strcmp(argv[3], "kill")) raise(SIGKILL);
  return sqlite3_close(db);
}
