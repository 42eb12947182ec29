/* A program that loads its extensions as PHP does: -DHOST is the program, without it the extension. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

#ifdef HOST
/* PHP is known by this function. */
int php_module_startup(void) { return 0; }

int main(int count, char **arguments) {
    void *extension = dlopen(arguments[1], RTLD_LAZY | RTLD_GLOBAL | RTLD_DEEPBIND);
    int (*version)(const char *) = extension ? (int (*)(const char *))dlsym(extension, "version") : 0;
    if (count < 3 || !version) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    return version(arguments[2]);
}
#else
int sqlite3_open(const char *, void **);
int sqlite3_exec(void *, const char *, int (*)(void *, int, char **, char **), void *, char **);
int sqlite3_close(void *);

static int say(void *unused, int count, char **values, char **names) {
    (void)unused, (void)count, (void)names;
    return puts(values[0]) < 0;
}

int version(const char *database) {
    void *db;
    int code = sqlite3_open(database, &db) || sqlite3_exec(db, "PRAGMA litefoot_version", say, 0, 0);
    return sqlite3_close(db) || code;
}
#endif
