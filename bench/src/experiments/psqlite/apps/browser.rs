//! `webview.db`, `webviewCache.db` and `WebpageIcons.db`: cookies and forms, the cache's index, icons of pages.

use super::{App, Values, in_transaction};
use rusqlite::{Connection, Result, params};

pub const WEBVIEW: App = App {
    name: "webview",
    application: Some("browser"),
    schema: "CREATE TABLE android_metadata(locale TEXT);
        CREATE TABLE cookies(_id INTEGER PRIMARY KEY, name TEXT, value TEXT, domain TEXT, path TEXT,
            expires INTEGER, secure INTEGER);
        CREATE INDEX cookiesIndex ON cookies(path);
        CREATE TABLE formurl(_id INTEGER PRIMARY KEY, url TEXT);
        CREATE TABLE formdata(_id INTEGER PRIMARY KEY, urlid INTEGER, name TEXT, value TEXT,
            UNIQUE(urlid, name, value) ON CONFLICT IGNORE);
        CREATE TABLE httpauth(_id INTEGER PRIMARY KEY, host TEXT, realm TEXT, username TEXT, password TEXT,
            UNIQUE(host, realm) ON CONFLICT REPLACE);
        CREATE TABLE password(_id INTEGER PRIMARY KEY, host TEXT, username TEXT, password TEXT,
            UNIQUE(host, username) ON CONFLICT REPLACE);",
    prepare: |db, values| (0..400).try_for_each(|_| cookie(db, values)),
    transact: webview,
};

/// Sites of which some are visited all the time.
const SITES: i64 = 120;

/// A cookie is replaced, as `CookieSyncManager` does it: the old one deleted, the new one inserted.
fn cookie(db: &Connection, values: &mut Values) -> Result<()> {
    let domain = format!(".site{}.com", values.often_low(SITES));
    let name = format!("__utm{}", values.below(5));
    db.prepare_cached("DELETE FROM cookies WHERE (domain == ?1) AND (path == ?2) AND (name == ?3)")?
        .execute(params![domain, "/", name])?;
    let expires = values.later();
    db.prepare_cached("INSERT INTO cookies VALUES(NULL, ?1, ?2, ?3, ?4, ?5, 0)")?
        .execute(params![name, values.word(20, 80), domain, "/", expires])
        .map(drop)
}

fn webview(db: &Connection, values: &mut Values) -> Result<()> {
    match values.below(20) {
        0..=15 => in_transaction(db, || {
            // Changes of the same five minutes are written together.
            (0..1 + values.below(4)).try_for_each(|_| cookie(db, values))
        }),
        16 | 17 => in_transaction(db, || {
            let url = values.often_low(SITES);
            db.prepare_cached("INSERT OR REPLACE INTO formurl VALUES(?1, ?2)")?
                .execute(params![url, format!("http://www.site{url}.com/login")])?;
            db.prepare_cached("INSERT INTO formdata VALUES(NULL, ?1, ?2, ?3)")?
                .execute(params![url, values.word(4, 8), values.word(4, 20)])
                .map(drop)
        }),
        18 => {
            let host = format!("http://www.site{}.com", values.often_low(SITES));
            db.prepare_cached("INSERT INTO password VALUES(NULL, ?1, ?2, ?3)")?
                .execute(params![host, values.word(4, 10), values.word(6, 12)])
                .map(drop)
        }
        _ => {
            let now = values.now - 40_000_000;
            db.prepare_cached("DELETE FROM cookies WHERE expires < ?1")?.execute([now]).map(drop)
        }
    }
}

pub const CACHE: App = App {
    name: "webview_cache",
    application: Some("browser"),
    schema: "CREATE TABLE android_metadata(locale TEXT);
        CREATE TABLE cache(_id INTEGER PRIMARY KEY, url TEXT, filepath TEXT, lastmodify TEXT, etag TEXT,
            expires INTEGER, expiresstring TEXT, mimetype TEXT, encoding TEXT, httpstatus INTEGER,
            location TEXT, contentlength INTEGER, contentdisposition TEXT, UNIQUE(url) ON CONFLICT REPLACE);
        CREATE INDEX cacheUrlIndex ON cache(url);",
    prepare: |db, values| (0..300).try_for_each(|_| cached(db, values)),
    transact: |db, values| {
        in_transaction(db, || {
            // Those that make the cache larger than 6 MB go, oldest first.
            (0..1 + values.below(6)).try_for_each(|_| cached(db, values))?;
            db.prepare_cached(
                "DELETE FROM cache WHERE _id IN (SELECT _id FROM cache ORDER BY _id DESC LIMIT 20 OFFSET 600)",
            )?
            .execute([])
            .map(drop)
        })
    },
};

fn cached(db: &Connection, values: &mut Values) -> Result<()> {
    let site = values.often_low(SITES);
    let url = format!("http://www.site{site}.com/images/{}.png", values.often_low(60));
    let file = values.word(8, 8);
    let expires = values.later();
    db.prepare_cached(
        "INSERT INTO cache VALUES(NULL, ?1, ?2, ?3, ?4, ?5, ?3, 'image/png', '', 200, '', ?6, NULL)",
    )?
    .execute(params![
        url,
        file,
        "Tue, 20 Jul 2010 10:00:00 GMT",
        values.word(16, 16),
        expires,
        values.below(40_000)
    ])
    .map(drop)
}

pub const ICONS: App = App {
    name: "webview_icons",
    application: Some("browser"),
    schema: "CREATE TABLE PageURL(url TEXT NOT NULL ON CONFLICT FAIL UNIQUE ON CONFLICT REPLACE,
            iconID INTEGER NOT NULL ON CONFLICT FAIL);
        CREATE INDEX PageURLIndex ON PageURL(url);
        CREATE TABLE IconInfo(iconID INTEGER PRIMARY KEY AUTOINCREMENT UNIQUE ON CONFLICT REPLACE,
            url TEXT NOT NULL ON CONFLICT FAIL UNIQUE ON CONFLICT FAIL, stamp INTEGER);
        CREATE INDEX IconInfoIndex ON IconInfo(url, iconID);
        CREATE TABLE IconData(iconID INTEGER PRIMARY KEY AUTOINCREMENT UNIQUE ON CONFLICT REPLACE, data BLOB);
        CREATE TABLE IconDatabaseInfo(key TEXT NOT NULL ON CONFLICT FAIL UNIQUE ON CONFLICT REPLACE,
            value TEXT NOT NULL ON CONFLICT FAIL);",
    prepare: |db, values| (1..=SITES).try_for_each(|site| icon(db, values, site)),
    transact: icons,
};

fn icon(db: &Connection, values: &mut Values, site: i64) -> Result<()> {
    let data = values.bytes(600);
    let stamp = values.later() / 1000;
    db.prepare_cached("INSERT OR REPLACE INTO IconInfo VALUES(?1, ?2, ?3)")?.execute(params![
        site,
        format!("http://www.site{site}.com/favicon.ico"),
        stamp
    ])?;
    db.prepare_cached("INSERT OR REPLACE INTO IconData VALUES(?1, ?2)")?
        .execute(params![site, data])
        .map(drop)
}

/// Pages that were visited since the last time: their icons, and the stamps of these.
fn icons(db: &Connection, values: &mut Values) -> Result<()> {
    in_transaction(db, || {
        for _ in 0..1 + values.below(4) {
            let site = 1 + values.often_low(SITES);
            let page = format!("http://www.site{site}.com/{}", values.often_low(30));
            db.prepare_cached("INSERT INTO PageURL VALUES(?1, ?2)")?.execute(params![page, site])?;
            let stamp = values.later() / 1000;
            db.prepare_cached("UPDATE IconInfo SET stamp=?2 WHERE iconID=?1")?.execute([site, stamp])?;
        }
        if values.one_in(10) {
            let site = 1 + values.often_low(SITES);
            let data = values.bytes(600);
            db.prepare_cached("UPDATE IconData SET data=?2 WHERE iconID=?1")?.execute(params![site, data])?;
        }
        if values.one_in(30) {
            let forgotten = 1 + values.below(SITES);
            db.prepare_cached("DELETE FROM PageURL WHERE iconID=?1")?.execute([forgotten])?;
        }
        Ok(())
    })
}
