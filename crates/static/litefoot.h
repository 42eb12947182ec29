/* liblitefoot.a: litefoot in a program that is linked with SQLite. */
#ifndef LITEFOOT_H
#define LITEFOOT_H
#ifdef __cplusplus
extern "C" {
#endif

/* Makes litefoot the default VFS of the SQLite that this program is linked with, unless LITEFOOT=off is in the environment.

   SQLite calls it by itself where it is compiled with -DSQLITE_EXTRA_INIT=litefoot_init, or, in newer versions, with
   -DSQLITE_EXTRA_INIT_MUTEXED=litefoot_init, which is for programs with threads. Otherwise call litefoot_init(0) behind
   sqlite3_config(), before the first database is opened.

   Always answers SQLITE_OK. Where litefoot cannot be used, one line on standard error says why, and SQLite goes on without it. */
int litefoot_init(const char *unused);

#ifdef __cplusplus
}
#endif
#endif
