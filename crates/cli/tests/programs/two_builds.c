/* Two builds of litefoot in one process, each under an SQLite of its own, on one database.
   They insert by turns, and each prints how many rows it finds, or SQLite's message. A copy of the distribution's SQLite
   is the second one.
   Usage: two_builds LIBRARY OTHER_LIBRARY DATABASE JOURNAL_MODE */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct sqlite3 sqlite3;
static const int READWRITE_CREATE = 2 | 4;

typedef struct {
  int (*open)(const char *, sqlite3 **, int, const char *);
  int (*enable)(sqlite3 *, int);
  int (*load)(sqlite3 *, const char *, const char *, char **);
  int (*exec)(sqlite3 *, const char *, int (*)(void *, int, char **, char **), void *, char **);
  int (*timeout)(sqlite3 *, int);
  int (*close)(sqlite3 *);
  sqlite3 *loader, *db;
} Side;

static void fail(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why ? why : "no reason given");
  exit(1);
}

static int print(void *unused, int columns, char **values, char **names) {
  (void)unused; (void)names;
  for (int i = 0; i < columns; i++) printf("%s\n", values[i] ? values[i] : "NULL");
  return 0;
}

static void run(Side *side, const char *sql) {
  char *why = 0;
  if (side->exec(side->db, sql, print, 0, &why)) printf("%s\n", why ? why : "no reason given");
}

static void *load(const char *sqlite) {
  void *library = dlopen(sqlite, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (!library) fail(sqlite, dlerror());
  return library;
}

static Side side(void *library, const char *litefoot, const char *database) {
  Side side = {0};
  char *why = 0;
  *(void **)&side.open = dlsym(library, "sqlite3_open_v2");
  *(void **)&side.enable = dlsym(library, "sqlite3_enable_load_extension");
  *(void **)&side.load = dlsym(library, "sqlite3_load_extension");
  *(void **)&side.exec = dlsym(library, "sqlite3_exec");
  *(void **)&side.timeout = dlsym(library, "sqlite3_busy_timeout");
  *(void **)&side.close = dlsym(library, "sqlite3_close");
  if (side.open(":memory:", &side.loader, READWRITE_CREATE, 0)) fail(":memory:", 0);
  side.enable(side.loader, 1);
  if (side.load(side.loader, litefoot, 0, &why)) fail(litefoot, why);
  if (side.open(database, &side.db, READWRITE_CREATE, "litefoot")) fail(database, 0);
  side.timeout(side.db, 1000);
  return side;
}

int main(int argc, char **argv) {
  static const char turn[] = "INSERT INTO t VALUES(1); SELECT count(*) FROM t";
  char sql[200], copy[5000];
  if (argc != 5) return 2;
  /* Nothing of this may wait for the kernel's patience with a lease. */
  alarm(40);
  void *sqlite = load("libsqlite3.so.0");
  struct link_map *place;
  if (dlinfo(sqlite, RTLD_DI_LINKMAP, &place)) fail("libsqlite3.so.0", dlerror());
  snprintf(copy, sizeof copy, "cp -L '%s' second_sqlite.so", place->l_name);
  if (system(copy)) fail(copy, 0);
  Side first = side(sqlite, argv[1], argv[3]);
  snprintf(sql, sizeof sql, "PRAGMA journal_mode=%s; CREATE TABLE t(a)", argv[4]);
  run(&first, sql);
  run(&first, turn);
  Side second = side(load("./second_sqlite.so"), argv[2], argv[3]);
  run(&second, turn);
  run(&first, turn);
  run(&second, turn);
  first.close(first.db);
  run(&second, turn);
  second.close(second.db);
  return 0;
}
