//! `contacts2.db`: contacts, what is known of them, what they are found by, and calls.

use super::{App, Values, in_transaction, integer};
use rusqlite::{Connection, Result, params};

pub const CONTACTS: App = App {
    name: "contacts2",
    application: Some("phone_book"),
    schema: "CREATE TABLE android_metadata(locale TEXT);
        CREATE TABLE contacts(_id INTEGER PRIMARY KEY AUTOINCREMENT, name_raw_contact_id INTEGER,
            photo_id INTEGER, custom_ringtone TEXT, send_to_voicemail INTEGER NOT NULL DEFAULT 0,
            times_contacted INTEGER NOT NULL DEFAULT 0, last_time_contacted INTEGER,
            starred INTEGER NOT NULL DEFAULT 0, in_visible_group INTEGER NOT NULL DEFAULT 1,
            has_phone_number INTEGER NOT NULL DEFAULT 0, lookup TEXT, status_update_id INTEGER,
            single_is_restricted INTEGER NOT NULL DEFAULT 0);
        CREATE INDEX contacts_visible_index ON contacts(in_visible_group);
        CREATE INDEX contacts_has_phone_index ON contacts(has_phone_number);
        CREATE INDEX contacts_restricted_index ON contacts(single_is_restricted);
        CREATE INDEX contacts_name_raw_contact_id_index ON contacts(name_raw_contact_id);
        CREATE TABLE raw_contacts(_id INTEGER PRIMARY KEY AUTOINCREMENT, is_restricted INTEGER DEFAULT 0,
            account_name TEXT, account_type TEXT, sourceid TEXT, version INTEGER NOT NULL DEFAULT 1,
            dirty INTEGER NOT NULL DEFAULT 0, deleted INTEGER NOT NULL DEFAULT 0, contact_id INTEGER,
            aggregation_mode INTEGER NOT NULL DEFAULT 0, aggregation_needed INTEGER NOT NULL DEFAULT 1,
            times_contacted INTEGER NOT NULL DEFAULT 0, last_time_contacted INTEGER,
            starred INTEGER NOT NULL DEFAULT 0, display_name TEXT, display_name_alt TEXT,
            sort_key TEXT COLLATE NOCASE, sort_key_alt TEXT COLLATE NOCASE,
            contact_in_visible_group INTEGER NOT NULL DEFAULT 1, sync1 TEXT, sync2 TEXT);
        CREATE INDEX raw_contacts_source_id_index ON raw_contacts(sourceid, account_type, account_name);
        CREATE INDEX raw_contacts_contact_id_index ON raw_contacts(contact_id);
        CREATE INDEX raw_contact_sort_key1_index ON raw_contacts(contact_in_visible_group, sort_key);
        CREATE INDEX raw_contact_sort_key2_index ON raw_contacts(contact_in_visible_group, sort_key_alt);
        CREATE TABLE mimetypes(_id INTEGER PRIMARY KEY AUTOINCREMENT, mimetype TEXT NOT NULL);
        CREATE TABLE data(_id INTEGER PRIMARY KEY AUTOINCREMENT, package_id INTEGER, mimetype_id INTEGER NOT NULL,
            raw_contact_id INTEGER NOT NULL, is_primary INTEGER NOT NULL DEFAULT 0,
            is_super_primary INTEGER NOT NULL DEFAULT 0, data_version INTEGER NOT NULL DEFAULT 0,
            data1 TEXT, data2 TEXT, data3 TEXT, data4 TEXT, data5 TEXT);
        CREATE INDEX data_raw_contact_id ON data(raw_contact_id);
        CREATE INDEX data_mimetype_data1_index ON data(mimetype_id, data1);
        CREATE TABLE phone_lookup(data_id INTEGER PRIMARY KEY, raw_contact_id INTEGER NOT NULL,
            normalized_number TEXT NOT NULL, min_match TEXT NOT NULL);
        CREATE INDEX phone_lookup_index ON phone_lookup(normalized_number, raw_contact_id, data_id);
        CREATE INDEX phone_lookup_min_match_index ON phone_lookup(min_match, raw_contact_id, data_id);
        CREATE TABLE name_lookup(data_id INTEGER NOT NULL, raw_contact_id INTEGER NOT NULL,
            normalized_name TEXT NOT NULL, name_type INTEGER NOT NULL,
            PRIMARY KEY(data_id, normalized_name, name_type));
        CREATE INDEX name_lookup_index ON name_lookup(normalized_name, name_type, raw_contact_id);
        CREATE INDEX name_lookup_raw_contact_id_index ON name_lookup(raw_contact_id);
        CREATE TABLE calls(_id INTEGER PRIMARY KEY AUTOINCREMENT, number TEXT, date INTEGER, duration INTEGER,
            type INTEGER, new INTEGER, name TEXT, numbertype INTEGER, numberlabel TEXT);
        CREATE TRIGGER raw_contacts_marked_deleted AFTER UPDATE ON raw_contacts BEGIN
            UPDATE raw_contacts SET version=OLD.version+1 WHERE _id=OLD._id AND NEW.deleted!=OLD.deleted; END;
        CREATE TRIGGER data_updated AFTER UPDATE ON data BEGIN
            UPDATE data SET data_version=OLD.data_version+1 WHERE _id=OLD._id;
            UPDATE raw_contacts SET version=version+1 WHERE _id=OLD.raw_contact_id; END;
        CREATE TRIGGER data_deleted BEFORE DELETE ON data BEGIN
            UPDATE raw_contacts SET version=version+1 WHERE _id=OLD.raw_contact_id;
            DELETE FROM phone_lookup WHERE data_id=OLD._id;
            DELETE FROM name_lookup WHERE data_id=OLD._id; END;
        CREATE TRIGGER raw_contacts_deleted AFTER DELETE ON raw_contacts BEGIN
            DELETE FROM data WHERE raw_contact_id=OLD._id;
            DELETE FROM contacts WHERE _id=OLD.contact_id; END;",
    prepare,
    transact,
};

fn prepare(db: &Connection, values: &mut Values) -> Result<()> {
    for kind in ["name", "phone_v2", "email_v2", "group_membership", "photo"] {
        db.execute("INSERT INTO mimetypes(mimetype) VALUES('vnd.android.cursor.item/' || ?1)", [kind])?;
    }
    (0..400).try_for_each(|_| insert(db, values))?;
    (0..300).try_for_each(|_| call(db, values))
}

/// A contact with a name, one or two numbers and perhaps an address.
fn insert(db: &Connection, values: &mut Values) -> Result<()> {
    let (first, last) = (values.word(3, 8), values.word(3, 10));
    let (name, other) = (format!("{first} {last}"), format!("{last}, {first}"));
    db.prepare_cached("INSERT INTO contacts(has_phone_number, lookup) VALUES(1, ?1)")?
        .execute([values.word(12, 20)])?;
    let contact = db.last_insert_rowid();
    db.prepare_cached(
        "INSERT INTO raw_contacts(account_name, account_type, sourceid, dirty, contact_id, aggregation_needed,
            display_name, display_name_alt, sort_key, sort_key_alt)
            VALUES('someone@gmail.com', 'com.google', ?1, 1, ?2, 0, ?3, ?4, ?3, ?4)",
    )?
    .execute(params![values.word(16, 16), contact, name, other])?;
    let raw = db.last_insert_rowid();
    db.prepare_cached("UPDATE contacts SET name_raw_contact_id=?2 WHERE _id=?1")?.execute([contact, raw])?;
    let data = datum(db, 1, raw, &name)?;
    for (kind, found_by) in [(0, &name), (2, &first), (2, &last)] {
        db.prepare_cached("INSERT OR IGNORE INTO name_lookup VALUES(?1, ?2, ?3, ?4)")?
            .execute(params![data, raw, found_by, kind])?;
    }
    for _ in 0..1 + values.below(2) {
        let number = values.number();
        let data = datum(db, 2, raw, &number)?;
        db.prepare_cached("INSERT INTO phone_lookup VALUES(?1, ?2, ?3, substr(?3, -7))")?
            .execute(params![data, raw, number])?;
    }
    if values.one_in(2) {
        let address = format!("{first}@{last}.com");
        datum(db, 3, raw, &address)?;
    }
    Ok(())
}

fn datum(db: &Connection, kind: i64, raw: i64, value: &str) -> Result<i64> {
    db.prepare_cached("INSERT INTO data(mimetype_id, raw_contact_id, data1, data2) VALUES(?1, ?2, ?3, '2')")?
        .execute(params![kind, raw, value])?;
    Ok(db.last_insert_rowid())
}

/// A contact that somebody calls or edits: recent and old friends, mostly.
fn somebody(db: &Connection, values: &mut Values) -> Result<i64> {
    let newest = integer(db, "SELECT max(_id) FROM raw_contacts")?;
    let wanted =
        if values.one_in(3) { newest - values.often_low(newest) } else { 1 + values.often_low(newest) };
    db.prepare_cached(
        "SELECT coalesce((SELECT max(_id) FROM raw_contacts WHERE _id<=?1), (SELECT min(_id) FROM raw_contacts))",
    )?
    .query_row([wanted], |row| row.get(0))
}

/// A call: an entry of the log, of which 500 are kept, and whom it was with.
fn call(db: &Connection, values: &mut Values) -> Result<()> {
    let raw = somebody(db, values)?;
    let (date, duration, kind) = (values.later(), values.below(600), 1 + values.below(3));
    let (name, number): (Option<String>, Option<String>) = db
        .prepare_cached(
            "SELECT display_name, (SELECT data1 FROM data WHERE raw_contact_id=?1 AND mimetype_id=2)
                FROM raw_contacts WHERE _id=?1",
        )?
        .query_row([raw], |row| Ok((row.get(0)?, row.get(1)?)))?;
    db.prepare_cached(
        "INSERT INTO calls(number, date, duration, type, new, name, numbertype) VALUES(?1, ?2, ?3, ?4, 1, ?5, 2)",
    )?
    .execute(params![number, date, duration, kind, name])?;
    db.prepare_cached(
        "DELETE FROM calls WHERE _id IN (SELECT _id FROM calls ORDER BY date DESC LIMIT -1 OFFSET 500)",
    )?
    .execute([])?;
    db.prepare_cached(
        "UPDATE contacts SET times_contacted=times_contacted+1, last_time_contacted=?2
            WHERE _id=(SELECT contact_id FROM raw_contacts WHERE _id=?1)",
    )?
    .execute([raw, date])?;
    db.prepare_cached(
        "UPDATE raw_contacts SET times_contacted=times_contacted+1, last_time_contacted=?2 WHERE _id=?1",
    )?
    .execute([raw, date])
    .map(drop)
}

/// Another number for somebody.
fn edit(db: &Connection, values: &mut Values) -> Result<()> {
    let raw = somebody(db, values)?;
    let number = values.number();
    db.prepare_cached("UPDATE data SET data1=?2 WHERE raw_contact_id=?1 AND mimetype_id=2")?
        .execute(params![raw, number])?;
    db.prepare_cached(
        "UPDATE phone_lookup SET normalized_number=?2, min_match=substr(?2, -7) WHERE raw_contact_id=?1",
    )?
    .execute(params![raw, number])?;
    db.prepare_cached("UPDATE raw_contacts SET dirty=1 WHERE _id=?1")?.execute([raw]).map(drop)
}

fn transact(db: &Connection, values: &mut Values) -> Result<()> {
    match values.below(20) {
        0..=9 => in_transaction(db, || call(db, values)),
        10..=12 => in_transaction(db, || insert(db, values)),
        13..=16 => in_transaction(db, || edit(db, values)),
        // The synchronisation has been told of what was changed.
        17 | 18 => {
            let raw = somebody(db, values)?;
            in_transaction(db, || {
                db.prepare_cached("UPDATE raw_contacts SET dirty=0, sync1=?2 WHERE _id=?1")?
                    .execute(params![raw, values.word(8, 8)])
                    .map(drop)
            })
        }
        _ => {
            let raw = somebody(db, values)?;
            in_transaction(db, || {
                db.prepare_cached("UPDATE raw_contacts SET deleted=1 WHERE _id=?1")?.execute([raw])?;
                db.prepare_cached("DELETE FROM raw_contacts WHERE _id=?1")?.execute([raw]).map(drop)
            })
        }
    }
}
