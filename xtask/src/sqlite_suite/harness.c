/*
** Puts litefoot under SQLite's own test program, as its default VFS.
**
** The test program is built with SQLITE_EXTRA_INIT=litefoot_suite_init. With LITEFOOT_SUITE_LIBRARY in the
** environment it runs on litefoot, without it is SQLite as it came: one program for both sides.
**
** SQLite's unix VFS has counters and faults of its own for the tests (files that are open, syncs, the n-th call that
** fails). Here litefoot gets the same, at the same calls. The calls are wrapped where they are, in litefoot's own
** tables: a VFS on top would be a VFS that litefoot must treat differently (it could not tell a journal's database).
*/
#define _GNU_SOURCE
#include "sqlite3.h"
#include "sqlite3ext.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* This library serves the program's SQLite: no table of functions in between. */
#undef sqlite3_auto_extension
#undef sqlite3_cancel_auto_extension
#undef sqlite3_close
#undef sqlite3_open_v2
#undef sqlite3_vfs_find

/* The test program's counters; SQLite's other programs have none. */
#pragma weak sqlite3_io_error_hit
#pragma weak sqlite3_io_error_hardhit
#pragma weak sqlite3_io_error_pending
#pragma weak sqlite3_io_error_persist
#pragma weak sqlite3_io_error_benign
#pragma weak sqlite3_diskfull_pending
#pragma weak sqlite3_diskfull
#pragma weak sqlite3_open_file_count
#pragma weak sqlite3_sync_count
#pragma weak sqlite3_fullsync_count
extern int sqlite3_io_error_hit, sqlite3_io_error_hardhit, sqlite3_io_error_pending;
extern int sqlite3_io_error_persist, sqlite3_io_error_benign;
extern int sqlite3_diskfull_pending, sqlite3_diskfull;
extern int sqlite3_open_file_count, sqlite3_sync_count, sqlite3_fullsync_count;

typedef int (*Entry)(sqlite3 *, char **, const sqlite3_api_routines *);
typedef int (*Open)(sqlite3_vfs *, const char *, sqlite3_file *, int, int *);
typedef int (*Delete)(sqlite3_vfs *, const char *, int);
typedef int (*Access)(sqlite3_vfs *, const char *, int, int *);

static Entry entry;
static Open real_open;
static Delete real_delete;
static Access real_access;
static sqlite3_vfs *unix_vfs;

/* litefoot's tables of methods, as they were. */
static struct { const sqlite3_io_methods *table; sqlite3_io_methods real; } tables[4];
static int table_count;

/* Files whose first sync is to sync their directory, too. */
static const sqlite3_file *unnamed[256];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void hit(void) {
    sqlite3_io_error_hit++;
    if (!sqlite3_io_error_benign) sqlite3_io_error_hardhit++;
}

/* Whether this call is the one that fails. */
static int fails(void) {
    if ((sqlite3_io_error_persist && sqlite3_io_error_hit) || sqlite3_io_error_pending-- == 1) {
        hit();
        return 1;
    }
    return 0;
}

/* Whether the medium is full now. */
static int is_full(void) {
    if (sqlite3_diskfull_pending == 0) return 0;
    if (sqlite3_diskfull_pending != 1) {
        sqlite3_diskfull_pending--;
        return 0;
    }
    hit();
    sqlite3_diskfull = 1;
    sqlite3_io_error_hit = 1;
    return 1;
}

static const sqlite3_io_methods *real(const sqlite3_file *file) {
    for (int i = 0; i < table_count; i++)
        if (tables[i].table == file->pMethods) return &tables[i].real;
    fprintf(stderr, "sqlite-suite: a file of litefoot's has an unknown table of methods\n");
    abort();
}

static int note_unnamed(const sqlite3_file *file, const sqlite3_file *now, const sqlite3_file *then) {
    int found = 0;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < 256 && !found; i++)
        if (unnamed[i] == now) { unnamed[i] = then; found = 1; }
    pthread_mutex_unlock(&mutex);
    (void)file;
    return found;
}

static int suite_close(sqlite3_file *file) {
    note_unnamed(file, file, NULL);
    sqlite3_open_file_count--;
    return real(file)->xClose(file);
}

static int suite_read(sqlite3_file *file, void *buffer, int bytes, sqlite3_int64 offset) {
    if (fails()) return SQLITE_IOERR_READ;
    return real(file)->xRead(file, buffer, bytes, offset);
}

static int suite_write(sqlite3_file *file, const void *buffer, int bytes, sqlite3_int64 offset) {
    int code = real(file)->xWrite(file, buffer, bytes, offset);
    int failed = fails(), full = is_full();
    if (full) return SQLITE_FULL;
    return failed ? SQLITE_IOERR_WRITE : code;
}

static int suite_sync(sqlite3_file *file, int flags) {
    if (is_full()) return SQLITE_FULL;
    if ((flags & 0x0F) == SQLITE_SYNC_FULL) sqlite3_fullsync_count++;
    sqlite3_sync_count++;
    if (fails()) return SQLITE_IOERR_FSYNC;
    if (note_unnamed(file, file, NULL)) sqlite3_sync_count++;
    return real(file)->xSync(file, flags);
}

static int suite_truncate(sqlite3_file *file, sqlite3_int64 bytes) {
    if (fails()) return SQLITE_IOERR_TRUNCATE;
    return real(file)->xTruncate(file, bytes);
}

static int suite_size(sqlite3_file *file, sqlite3_int64 *bytes) {
    if (fails()) return SQLITE_IOERR_FSTAT;
    return real(file)->xFileSize(file, bytes);
}

static int suite_reserved(sqlite3_file *file, int *answer) {
    if (fails()) return SQLITE_IOERR_CHECKRESERVEDLOCK;
    return real(file)->xCheckReservedLock(file, answer);
}

/* While a fault is to come pages are read, as SQLite's unix VFS has them read: a page by address cannot fail. */
static int suite_fetch(sqlite3_file *file, sqlite3_int64 offset, int bytes, void **page) {
    if (sqlite3_io_error_pending > 0 || (sqlite3_io_error_persist && sqlite3_io_error_hit)) {
        *page = NULL;
        return SQLITE_OK;
    }
    return real(file)->xFetch(file, offset, bytes, page);
}

/* Whether an address is litefoot's code: a database that is shared has the files of the unix VFS. */
static int is_litefoot(void *address) {
    Dl_info of_address, of_entry;
    return dladdr(address, &of_address) && dladdr((void *)entry, &of_entry)
        && of_address.dli_fbase == of_entry.dli_fbase;
}

static void wrap(const sqlite3_io_methods *table) {
    pthread_mutex_lock(&mutex);
    int known = 0;
    for (int i = 0; i < table_count; i++) known |= tables[i].table == table;
    if (!known && is_litefoot((void *)table->xClose)) {
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
        uintptr_t from = (uintptr_t)table & ~(page - 1);
        uintptr_t to = ((uintptr_t)(table + 1) + page - 1) & ~(page - 1);
        if (table_count == 4 || mprotect((void *)from, to - from, PROT_READ | PROT_WRITE)) {
            fprintf(stderr, "sqlite-suite: litefoot's methods cannot be wrapped\n");
            abort();
        }
        sqlite3_io_methods *methods = (sqlite3_io_methods *)table;
        tables[table_count].table = table;
        tables[table_count++].real = *table;
        methods->xClose = suite_close;
        methods->xRead = suite_read;
        methods->xWrite = suite_write;
        methods->xSync = suite_sync;
        methods->xTruncate = suite_truncate;
        methods->xFileSize = suite_size;
        methods->xCheckReservedLock = suite_reserved;
        if (methods->iVersion >= 3) methods->xFetch = suite_fetch;
    }
    pthread_mutex_unlock(&mutex);
}

static int suite_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out) {
    if (!name && fails()) return SQLITE_IOERR;
    int code = real_open(vfs, name, file, flags, out);
    if (code == SQLITE_OK && file->pMethods && is_litefoot((void *)file->pMethods)) {
        wrap(file->pMethods);
        sqlite3_open_file_count++;
        int logs = SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL | SQLITE_OPEN_WAL;
        if ((flags & logs) && (flags & SQLITE_OPEN_CREATE)) note_unnamed(file, NULL, file);
    }
    return code;
}

static int suite_delete(sqlite3_vfs *vfs, const char *name, int sync_directory) {
    if (fails()) return SQLITE_IOERR_DELETE;
    int code = real_delete(vfs, name, sync_directory);
    if (code == SQLITE_OK && sync_directory) sqlite3_sync_count++;
    return code;
}

static int suite_access(sqlite3_vfs *vfs, const char *name, int flags, int *answer) {
    if (fails()) return SQLITE_IOERR_ACCESS;
    return real_access(vfs, name, flags, answer);
}

/*
** The system's calls that the tests replace are those of the unix VFS. litefoot's are its own: what a test makes fail
** here reaches the unix VFS only, and what it asks is answered by that.
*/
static int suite_set_call(sqlite3_vfs *vfs, const char *name, sqlite3_syscall_ptr call) {
    (void)vfs;
    return unix_vfs->xSetSystemCall(unix_vfs, name, call);
}

static sqlite3_syscall_ptr suite_get_call(sqlite3_vfs *vfs, const char *name) {
    (void)vfs;
    return unix_vfs->xGetSystemCall(unix_vfs, name);
}

static const char *suite_next_call(sqlite3_vfs *vfs, const char *name) {
    (void)vfs;
    return unix_vfs->xNextSystemCall(unix_vfs, name);
}

static int load(sqlite3 *db, char **message, const sqlite3_api_routines *api) {
    int code = entry(db, message, api);
    return code == SQLITE_OK_LOAD_PERMANENTLY ? SQLITE_OK : code;
}

/* Called by SQLite at the end of each sqlite3_initialize. */
int litefoot_suite_init(const char *unused) {
    const char *library = getenv("LITEFOOT_SUITE_LIBRARY");
    (void)unused;
    if (!library) return SQLITE_OK;
    if (!entry) {
        void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
        entry = handle ? (Entry)dlsym(handle, "sqlite3_litefootdefault_init") : NULL;
        if (!entry) {
            fprintf(stderr, "sqlite-suite: %s\n", dlerror());
            return SQLITE_ERROR;
        }
    }
    /* The function table reaches extensions only, and an extension a connection. */
    sqlite3 *db = NULL;
    int code = sqlite3_auto_extension((void (*)(void))load);
    if (code) return code;
    code = sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE, "unix");
    if (code) fprintf(stderr, "sqlite-suite: %s\n", sqlite3_errmsg(db));
    sqlite3_close(db);
    sqlite3_cancel_auto_extension((void (*)(void))load);
    sqlite3_vfs *vfs = sqlite3_vfs_find("litefoot");
    if (code == SQLITE_OK && vfs && vfs->xOpen != suite_open && &sqlite3_io_error_pending) {
        real_open = vfs->xOpen;
        real_delete = vfs->xDelete;
        real_access = vfs->xAccess;
        vfs->xOpen = suite_open;
        vfs->xDelete = suite_delete;
        vfs->xAccess = suite_access;
        unix_vfs = sqlite3_vfs_find("unix");
        vfs->xSetSystemCall = suite_set_call;
        vfs->xGetSystemCall = suite_get_call;
        vfs->xNextSystemCall = suite_next_call;
    }
    return code;
}
