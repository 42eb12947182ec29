/* A program on SQLite that writes down which of its transactions were acknowledged, and that looks afterwards.
 *
 *   workload run DATABASE ACKNOWLEDGED JOURNAL PRAGMAS FIRST LAST BEGIN END
 *       runs the transactions FIRST to LAST. The library of faults begins to count at BEGIN: `start`, before SQLite is
 *       called at all, `ready`, once SQLite is initialised, or `open`, once a first transaction is done.
 *       END is `close`, or `kill`: SIGKILL, nothing closed.
 *       Prints "errors N", and what was seen that must not be.
 *   workload check DATABASE ACKNOWLEDGED
 *       prints "sound", or what is wrong. Its exit code is 0, 3 not opened, 4 damaged, 5 lost, 6 torn, 7 returned.
 *
 * Transaction i puts `rows(i)` rows into t, each with its number, and adds 1 to a counter. In ACKNOWLEDGED stands a line
 * for each that has ended: "+i" acknowledged, "-i" reported as failed and rolled back.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;
int sqlite3_initialize(void);
int sqlite3_open_v2(const char *, sqlite3 **, int, const char *);
int sqlite3_close(sqlite3 *);
int sqlite3_exec(sqlite3 *, const char *, void *, void *, char **);
int sqlite3_prepare_v2(sqlite3 *, const char *, int, sqlite3_stmt **, const char **);
int sqlite3_bind_int(sqlite3_stmt *, int, int);
int sqlite3_step(sqlite3_stmt *);
int sqlite3_reset(sqlite3_stmt *);
int sqlite3_finalize(sqlite3_stmt *);
int sqlite3_column_int(sqlite3_stmt *, int);
const unsigned char *sqlite3_column_text(sqlite3_stmt *, int);
int sqlite3_busy_timeout(sqlite3 *, int);
int sqlite3_get_autocommit(sqlite3 *);
int sqlite3_extended_errcode(sqlite3 *);
const char *sqlite3_errmsg(sqlite3 *);

enum { READWRITE = 2, CREATE = 4, URI = 64, ROW = 100, DONE = 101, MOST = 1000 };
enum { SOUND, NOT_OPENED = 3, DAMAGED, LOST, TORN, RETURNED };

void fault_arm(void) __attribute__((weak));

static const char *path;
static int acknowledged, many_acknowledged, errors;
static char text[400];

static void arm(void) {
    if (fault_arm) fault_arm();
}

static int failed(sqlite3 *db, const char *what) {
    errors++;
    if (getenv("WORKLOAD_TELLS")) printf("%s: %d %s\n", what, sqlite3_extended_errcode(db), sqlite3_errmsg(db));
    return 0;
}

static sqlite3 *opened(void) {
    sqlite3 *db = NULL;
    if (sqlite3_open_v2(path, &db, READWRITE | CREATE | URI, NULL)) {
        failed(db, "open");
        sqlite3_close(db);
        return NULL;
    }
    sqlite3_busy_timeout(db, 1000);
    return db;
}

static int done(sqlite3 *db, const char *sql) {
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == 0 || failed(db, sql);
}

/* The first column of the first row as a number; -1 where there is none. */
static int number(sqlite3 *db, const char *sql) {
    sqlite3_stmt *statement = NULL;
    int value = -1;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == 0 && sqlite3_step(statement) == ROW)
        value = sqlite3_column_int(statement, 0);
    else
        failed(db, sql);
    sqlite3_finalize(statement);
    return value;
}

static int rows(int i) {
    return i % 8 == 6 ? 60 : i % 16 == 11 ? 250 : 1 + i % 3;
}

static int inserted(sqlite3 *db, int i) {
    sqlite3_stmt *insert = NULL;
    int good = sqlite3_prepare_v2(db, "INSERT INTO t(tx, n, v) VALUES(?1, ?2, zeroblob(?3))", -1, &insert, NULL) == 0;
    for (int n = 1; good && n <= rows(i); n++) {
        sqlite3_bind_int(insert, 1, i);
        sqlite3_bind_int(insert, 2, n);
        sqlite3_bind_int(insert, 3, i % 5 == 4 ? 5000 / rows(i) : 20 + (n * 37 + i) % 300);
        good = sqlite3_step(insert) == DONE;
        sqlite3_reset(insert);
    }
    sqlite3_finalize(insert);
    return good || failed(db, "insert");
}

static void write_down(char sign, int i) {
    int length = snprintf(text, sizeof text, "%c%d\n", sign, i);
    if (write(acknowledged, text, (size_t)length) != length) _exit(9);
}

/* One transaction. */
static void transaction(sqlite3 *db, int i) {
    int good = done(db, i % 3 ? "BEGIN" : "BEGIN IMMEDIATE") && inserted(db, i) && done(db, "UPDATE counter SET c = c + 1");
    if (good && i % 4 == 2)
        good = done(db, "SAVEPOINT s; DELETE FROM t; ROLLBACK TO s; RELEASE s");
    if (good && done(db, "COMMIT")) {
        write_down('+', i);
        many_acknowledged++;
        return;
    }
    if (!sqlite3_get_autocommit(db)) done(db, "ROLLBACK");
    if (sqlite3_get_autocommit(db)) write_down('-', i);
}

static int prepared(sqlite3 *db, const char *journal, const char *pragmas) {
    snprintf(text, sizeof text, "PRAGMA journal_mode=%s; PRAGMA cache_size=12; %s", journal, pragmas);
    done(db, text);
    return done(db, "BEGIN; CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, tx, n, v);"
                    "CREATE INDEX IF NOT EXISTS by_tx ON t(tx, n); CREATE TABLE IF NOT EXISTS counter(c);"
                    "INSERT INTO counter SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM counter); COMMIT");
}

static int run(char **arguments) {
    const char *journal = arguments[2], *pragmas = arguments[3];
    int from = atoi(arguments[4]), to = atoi(arguments[5]);
    const char *begin = arguments[6];
    acknowledged = open(arguments[1], O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (!strcmp(begin, "start")) arm();
    if (sqlite3_initialize()) failed(NULL, "initialize");
    if (!strcmp(begin, "ready")) arm();
    sqlite3 *db = opened();
    int ready = db && prepared(db, journal, pragmas);
    if (!strcmp(begin, "open")) {
        if (!ready) return 9;
        transaction(db, from++);
        arm();
    }
    for (int i = from; i <= to; i++) {
        if (i % 9 == 7 && db) {
            sqlite3_close(db);
            db = NULL;
        }
        if (!db && (db = opened())) {
            ready = prepared(db, journal, pragmas);
            number(db, "SELECT sum(length(v)) FROM t");
        }
        if (!db) continue;
        if (!ready) {
            if (!sqlite3_get_autocommit(db)) done(db, "ROLLBACK");
            ready = prepared(db, journal, pragmas);
        }
        if (!ready) continue;
        transaction(db, i);
        if (i % 10 == 5) done(db, i % 4 == 1 ? "PRAGMA wal_checkpoint(TRUNCATE)" : "PRAGMA wal_checkpoint");
        if (i % 13 == 12) done(db, "VACUUM");
        if (i % 4 == 3) {
            int now = number(db, "SELECT c FROM counter");
            if (now >= 0 && now < many_acknowledged) printf("went back: %d transactions of %d\n", now, many_acknowledged);
        }
    }
    printf("errors %d\n", errors);
    fflush(stdout);
    if (!strcmp(arguments[7], "kill")) kill(getpid(), SIGKILL);
    sqlite3_close(db);
    return 0;
}

static int check(char **arguments) {
    static char acked[MOST], rolled_back[MOST], there[MOST];
    FILE *list = fopen(arguments[1], "r");
    int i, last = -1, any = 0;
    char sign;
    while (list && fscanf(list, " %c%d", &sign, &i) == 2) {
        if (i < 0 || i >= MOST) return 9;
        (sign == '+' ? acked : rolled_back)[i] = 1;
        if (sign == '+') last = i, any++;
    }
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    int found = 0, verdict = SOUND;
    if (sqlite3_open_v2(path, &db, READWRITE | CREATE | URI, NULL) ||
        sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &statement, NULL) || sqlite3_step(statement) != ROW) {
        printf("not opened: %d %s\n", sqlite3_extended_errcode(db), sqlite3_errmsg(db));
        return NOT_OPENED;
    }
    if (strcmp((const char *)sqlite3_column_text(statement, 0), "ok")) {
        printf("damaged: %.200s\n", (const char *)sqlite3_column_text(statement, 0));
        return DAMAGED;
    }
    sqlite3_finalize(statement);
    if (sqlite3_prepare_v2(db, "SELECT tx, count(*), max(n) FROM t GROUP BY tx", -1, &statement, NULL)) {
        printf(any ? "lost: %s\n" : "sound\n", sqlite3_errmsg(db));
        return any ? LOST : SOUND;
    }
    while (sqlite3_step(statement) == ROW) {
        i = sqlite3_column_int(statement, 0);
        if (i < 0 || i >= MOST) return DAMAGED;
        there[i] = 1, found++;
        if (sqlite3_column_int(statement, 1) != rows(i) || sqlite3_column_int(statement, 2) != rows(i)) {
            printf("torn: transaction %d has %d rows of %d\n", i, sqlite3_column_int(statement, 1), rows(i));
            verdict = TORN;
        }
    }
    sqlite3_finalize(statement);
    int counted = number(db, "SELECT coalesce((SELECT c FROM counter), 0)");
    if (counted != found) {
        printf("torn: the counter says %d, there are %d transactions\n", counted, found);
        verdict = TORN;
    }
    for (i = 0; i < MOST; i++) {
        if (acked[i] && !there[i]) {
            printf("lost: transaction %d of %d acknowledged, the last %d\n", i, any, last);
            verdict = LOST;
            break;
        }
        if (there[i] && rolled_back[i] && !acked[i] && i < last) {
            printf("returned: transaction %d had failed, and %d was acknowledged after it\n", i, last);
            verdict = RETURNED;
            break;
        }
    }
    if (sqlite3_close(db)) return DAMAGED;
    if (verdict == SOUND) printf("sound: %d acknowledged, %d found\n", any, found);
    return verdict;
}

int main(int many, char **arguments) {
    if (many < 4) return 2;
    path = arguments[2];
    if (!strcmp(arguments[1], "check")) return check(arguments + 2);
    return many == 10 ? run(arguments + 2) : 2;
}
