/* Inserts rows, each a transaction with journal_mode=PERSIST at synchronous=FULL, and says what that took.

       inserts WAY DATABASE INSERTS WARMUP

   WAY is `stock` (the system's files as they are), `atomic` (the same, claimed to write pages of 4 KiB whole or not at all, as
   the paper's patch does), or `litefoot` (the extension that LITEFOOT_LIBRARY names). The lines that it says and waits for are
   those of bench/apps/protocol.py; the database is closed before the figures. */
#include "sqlite3.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void check(sqlite3 *db, int code, int wanted) {
  if (code == wanted) return;
  fprintf(stderr, "error %d: %s\n", code, db ? sqlite3_errmsg(db) : "?");
  exit(1);
}

/* The VFS that claims atomic pages. */
static sqlite3_vfs *plain, claiming;
static sqlite3_io_methods methods;
static int (*plain_characteristics)(sqlite3_file *);

static int characteristics(sqlite3_file *file) { return plain_characteristics(file) | SQLITE_IOCAP_ATOMIC4K; }

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out) {
  (void)vfs;
  int code = plain->xOpen(plain, name, file, flags, out);
  if (code == SQLITE_OK && flags & SQLITE_OPEN_MAIN_DB) {
    methods = *file->pMethods;
    plain_characteristics = methods.xDeviceCharacteristics;
    methods.xDeviceCharacteristics = characteristics;
    file->pMethods = &methods;
  }
  return code;
}

static void claim(void) {
  plain = sqlite3_vfs_find("unix");
  claiming = *plain;
  claiming.zName = "claiming";
  claiming.pNext = 0;
  claiming.xOpen = open_file;
  check(0, sqlite3_vfs_register(&claiming, 0), SQLITE_OK);
}

static void load(void) {
  sqlite3 *loader;
  check(0, sqlite3_open_v2(":memory:", &loader, SQLITE_OPEN_READWRITE, "unix"), SQLITE_OK);
  sqlite3_enable_load_extension(loader, 1);
  check(loader, sqlite3_load_extension(loader, getenv("LITEFOOT_LIBRARY"), 0, 0), SQLITE_OK);
  check(loader, sqlite3_close(loader), SQLITE_OK);
}

/* A line of /proc/self/status, in bytes. */
static long long process(const char *name) {
  char line[256];
  long long kilobytes = 0;
  FILE *status = fopen("/proc/self/status", "r");
  while (status && fgets(line, sizeof line, status))
    if (!strncmp(line, name, strlen(name))) kilobytes = atoll(line + strlen(name));
  if (status) fclose(status);
  return kilobytes * 1024;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

static void say(const char *name, long long value) { printf("figure %s %lld\n", name, value); }

static void wait_for_line(void) {
  char line[16];
  fflush(stdout);
  if (!fgets(line, sizeof line, stdin)) exit(1);
}

static void insert(sqlite3 *db, sqlite3_stmt *statement, int rows) {
  char text[101];
  memset(text, 'x', 100);
  for (int row = 0; row < rows; row++) {
    sqlite3_bind_text(statement, 1, text, 100, SQLITE_TRANSIENT);
    check(db, sqlite3_step(statement), SQLITE_DONE);
    sqlite3_reset(statement);
  }
}

int main(int argc, char **argv) {
  sqlite3 *db;
  sqlite3_stmt *statement;
  int none, hits, pager, schema;
  sqlite3_int64 used, most, size, largest;
  if (argc != 5) return 2;
  long long start = process("VmHWM:");
  const char *way = argv[1], *vfs = strcmp(way, "stock") ? strcmp(way, "atomic") ? "litefoot" : "claiming" : "unix";
  if (!strcmp(way, "atomic")) claim();
  if (!strcmp(way, "litefoot")) load();
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI;
  check(0, sqlite3_open_v2(argv[2], &db, flags, vfs), SQLITE_OK);
  const char *prepare =
      "PRAGMA journal_mode=persist; PRAGMA synchronous=full; CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)";
  check(db, sqlite3_exec(db, prepare, 0, 0, 0), SQLITE_OK);
  check(db, sqlite3_prepare_v2(db, "INSERT INTO t(b) VALUES(?1)", -1, &statement, 0), SQLITE_OK);
  insert(db, statement, atoi(argv[4]));
  puts("ready");
  wait_for_line();
  double begun = now();
  insert(db, statement, atoi(argv[3]));
  printf("done %.9f\n", now() - begun);
  fflush(stdout);
  sqlite3_finalize(statement);
  sqlite3_db_status(db, SQLITE_DBSTATUS_LOOKASIDE_HIT, &none, &hits, 0);
  sqlite3_db_status(db, SQLITE_DBSTATUS_CACHE_USED, &pager, &none, 0);
  sqlite3_db_status(db, SQLITE_DBSTATUS_SCHEMA_USED, &schema, &none, 0);
  check(db, sqlite3_close(db), SQLITE_OK);
  sqlite3_status64(SQLITE_STATUS_MEMORY_USED, &used, &most, 0);
  sqlite3_status64(SQLITE_STATUS_MALLOC_SIZE, &size, &largest, 0);
  say("heap_bytes", most);
  say("largest_allocation_bytes", largest);
  say("lookaside_hits", hits);
  say("pager_bytes", pager);
  say("schema_bytes", schema);
  long long end = process("VmHWM:");
  say("process_bytes", end);
  say("process_more_bytes", end - start);
  puts("end");
  wait_for_line();
  return 0;
}
