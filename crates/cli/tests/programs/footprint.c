/* Does small durable transactions as any program would, knowing nothing of litefoot, and says what memory it has.
   Usage: footprint DATABASE JOURNAL_MODE TRANSACTIONS
   Prints three lines: litefoot's version or "stock", rows, and resident kilobytes (all, and those that no file backs). */
#include "sqlite3.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(sqlite3 *db, int code) {
  if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE) return;
  fprintf(stderr, "error %d: %s\n", code, db ? sqlite3_errmsg(db) : "?");
  exit(1);
}

/* The first value that a statement answers, or what stands for none. */
static void ask(sqlite3 *db, const char *sql, const char *none) {
  sqlite3_stmt *statement;
  check(db, sqlite3_prepare_v2(db, sql, -1, &statement, 0));
  int code = sqlite3_step(statement);
  check(db, code);
  printf("%s\n", code == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : none);
  check(db, sqlite3_finalize(statement));
}

static long kilobytes(const char *name) {
  char line[200];
  long value = -1;
  FILE *status = fopen("/proc/self/status", "r");
  while (status && fgets(line, sizeof line, status))
    if (strncmp(line, name, strlen(name)) == 0) value = atol(line + strlen(name));
  if (status) fclose(status);
  return value;
}

int main(int argc, char **argv) {
  sqlite3 *db;
  char sql[200];
  if (argc != 4) return 2;
  check(0, sqlite3_open(argv[1], &db));
  snprintf(sql, sizeof sql, "PRAGMA journal_mode=%s; CREATE TABLE IF NOT EXISTS t(a INTEGER PRIMARY KEY, b);", argv[2]);
  check(db, sqlite3_exec(db, sql, 0, 0, 0));
  for (int i = 0; i < atoi(argv[3]); i++) {
    snprintf(sql, sizeof sql, "INSERT INTO t(b) VALUES(zeroblob(%d))", 100 + i);
    check(db, sqlite3_exec(db, sql, 0, 0, 0));
  }
  ask(db, "PRAGMA litefoot_version", "stock");
  ask(db, "SELECT count(*) FROM t", "none");
  printf("%ld %ld\n", kilobytes("VmRSS:"), kilobytes("RssAnon:"));
  fflush(stdout);
  check(db, sqlite3_close(db));
  return 0;
}
