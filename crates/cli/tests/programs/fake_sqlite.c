/* A library or a program that looks like one with SQLite inside: symbols, the call to be replaced, and the two texts. */
#ifdef HIDDEN
#define VISIBLE __attribute__((visibility("hidden")))
#else
#define VISIBLE
#endif

const char *fake_texts(int which) {
    static const char *const texts[] = {
        "CREATE TABLE x(type text,name text,tbl_name text,rootpage int,sql text)",
        "2023-11-01 11:23:50 17129ba1ff7f0daf37100ee82d507aef7827cf38de1866e2633096ae6ad81301",
    };
    return texts[which & 1];
}

VISIBLE const char sqlite3_version[] = "3.44.0";

VISIBLE int sqlite3_os_init(void) { return 0; }

int sqlite3_initialize(void) { return sqlite3_os_init(); }

#ifdef PROGRAM
int main(int count, char **words) { return sqlite3_initialize() + (fake_texts(count)[0] == 0); }
#endif
