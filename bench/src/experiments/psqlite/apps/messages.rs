//! `mmssms.db`: text messages, the threads they belong to, and the words that are searched for.

use super::{App, Values, in_transaction, integer};
use rusqlite::{Connection, Result, params};

pub const MESSAGES: App = App {
    name: "mmssms",
    application: Some("messages"),
    schema: "CREATE TABLE android_metadata(locale TEXT);
        CREATE TABLE canonical_addresses(_id INTEGER PRIMARY KEY, address TEXT);
        CREATE TABLE threads(_id INTEGER PRIMARY KEY, date INTEGER DEFAULT 0, message_count INTEGER DEFAULT 0,
            recipient_ids TEXT, snippet TEXT, snippet_cs INTEGER DEFAULT 0, read INTEGER DEFAULT 1,
            type INTEGER DEFAULT 0, error INTEGER DEFAULT 0, has_attachment INTEGER DEFAULT 0);
        CREATE TABLE sms(_id INTEGER PRIMARY KEY, thread_id INTEGER, address TEXT, person INTEGER,
            date INTEGER, protocol INTEGER, read INTEGER DEFAULT 0, status INTEGER DEFAULT -1, type INTEGER,
            reply_path_present INTEGER, subject TEXT, body TEXT, service_center TEXT,
            locked INTEGER DEFAULT 0, error_code INTEGER DEFAULT 0, seen INTEGER DEFAULT 0);
        CREATE INDEX typeThreadIdIndex ON sms(type, thread_id);
        CREATE VIRTUAL TABLE words USING FTS3(_id INTEGER PRIMARY KEY, index_text TEXT, source_id INTEGER,
            table_to_use INTEGER);
        CREATE TRIGGER sms_update_thread_on_insert AFTER INSERT ON sms BEGIN
            UPDATE threads SET date=new.date, snippet=new.body, snippet_cs=0,
                message_count=message_count + 1, read=new.read WHERE threads._id=new.thread_id; END;
        CREATE TRIGGER sms_update_thread_read_on_update AFTER UPDATE OF read ON sms BEGIN
            UPDATE threads SET read=CASE (SELECT count(*) FROM sms WHERE read=0 AND thread_id=threads._id)
                WHEN 0 THEN 1 ELSE 0 END WHERE threads._id=new.thread_id; END;
        CREATE TRIGGER sms_words_update AFTER UPDATE OF body ON sms BEGIN
            UPDATE words SET index_text=new.body WHERE source_id=new._id AND table_to_use=1; END;
        CREATE TRIGGER sms_words_delete AFTER DELETE ON sms BEGIN
            DELETE FROM words WHERE rowid=old._id; END;",
    prepare,
    transact,
};

const THREADS: i64 = 60;

fn prepare(db: &Connection, values: &mut Values) -> Result<()> {
    for thread in 1..=THREADS {
        let number = values.number();
        db.execute("INSERT INTO canonical_addresses VALUES(?1, ?2)", params![thread, number])?;
        db.execute("INSERT INTO threads(_id, recipient_ids) VALUES(?1, ?1)", params![thread])?;
    }
    (0..600).try_for_each(|_| insert(db, values, 1, 1))
}

fn insert(db: &Connection, values: &mut Values, kind: i64, read: i64) -> Result<()> {
    let thread = 1 + values.often_low(THREADS);
    let words = 3 + values.below(18) as usize;
    let (date, body) = (values.later(), values.text(words));
    let address: String = db
        .prepare_cached("SELECT address FROM canonical_addresses WHERE _id=?1")?
        .query_row([thread], |row| row.get(0))?;
    db.prepare_cached(
        "INSERT INTO sms(thread_id, address, date, protocol, read, type, reply_path_present, body,
            service_center, seen) VALUES(?1, ?2, ?3, 0, ?4, ?5, 0, ?6, '+821029120121', ?4)",
    )?
    .execute(params![thread, address, date, read, kind, body])?;
    db.prepare_cached(
        "INSERT INTO words(rowid, _id, index_text, source_id, table_to_use) VALUES(?1, ?1, ?2, ?1, 1)",
    )?
    .execute(params![db.last_insert_rowid(), body])
    .map(drop)
}

fn transact(db: &Connection, values: &mut Values) -> Result<()> {
    match values.below(20) {
        // One is received.
        0..=7 => in_transaction(db, || insert(db, values, 1, 0)),
        // A thread is opened: what is in it has been read.
        8..=12 => {
            let newest = integer(db, "SELECT thread_id FROM sms WHERE _id=(SELECT max(_id) FROM sms)")?;
            let thread = if values.one_in(3) { 1 + values.often_low(THREADS) } else { newest };
            db.prepare_cached("UPDATE sms SET read=1, seen=1 WHERE thread_id=?1 AND read=0")?
                .execute([thread])
                .map(drop)
        }
        // One is sent: first queued, then sent.
        13..=15 => in_transaction(db, || insert(db, values, 6, 1)),
        16 | 17 => db
            .prepare_cached(
                "UPDATE sms SET type=2, status=0 WHERE type=6 AND _id>(SELECT max(_id) FROM sms)-200",
            )?
            .execute([])
            .map(drop),
        18 => {
            let last = integer(db, "SELECT max(_id) FROM sms")?;
            let one = last - values.below(300);
            in_transaction(db, || {
                db.prepare_cached("DELETE FROM sms WHERE _id=?1")?.execute([one])?;
                db.prepare_cached(
                    "UPDATE threads SET message_count=(SELECT count(*) FROM sms WHERE thread_id=?1) WHERE _id=?1",
                )?
                .execute([one % THREADS + 1])
                .map(drop)
            })
        }
        // The messages above the limit of a thread are removed.
        _ => {
            let thread = 1 + values.often_low(THREADS);
            db.prepare_cached(
                "DELETE FROM sms WHERE _id IN (SELECT _id FROM sms WHERE thread_id=?1 AND locked=0
                    ORDER BY date DESC LIMIT 10 OFFSET 200)",
            )?
            .execute([thread])
            .map(drop)
        }
    }
}
