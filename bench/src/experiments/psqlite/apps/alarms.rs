//! `alarms.db`: a few rows, changed again and again.

use super::{App, Values};
use rusqlite::{Connection, Result, params};

pub const ALARMS: App = App {
    name: "alarms",
    application: Some("alarm"),
    schema: "CREATE TABLE android_metadata(locale TEXT);
        CREATE TABLE alarms(_id INTEGER PRIMARY KEY, hour INTEGER, minutes INTEGER, daysofweek INTEGER,
            alarmtime INTEGER, enabled INTEGER, vibrate INTEGER, message TEXT, alert TEXT);",
    prepare,
    transact,
};

fn prepare(db: &Connection, values: &mut Values) -> Result<()> {
    db.execute("INSERT INTO android_metadata VALUES('en_US')", [])?;
    (0..8).try_for_each(|_| insert(db, values))
}

fn insert(db: &Connection, values: &mut Values) -> Result<()> {
    let (hour, minutes, days) = (values.below(24), values.below(60), values.below(128));
    let message = values.text(2);
    db.prepare_cached("INSERT INTO alarms VALUES(NULL, ?1, ?2, ?3, 0, 1, 1, ?4, ?5)")?
        .execute(params![hour, minutes, days, message, "content://settings/system/alarm_alert"])
        .map(drop)
}

fn transact(db: &Connection, values: &mut Values) -> Result<()> {
    let id = 1 + values.below(8);
    match values.below(20) {
        // An alarm is set to another time.
        0..=5 => {
            let (hour, minutes) = (values.below(24), values.below(60));
            db.prepare_cached("UPDATE alarms SET hour=?2, minutes=?3, alarmtime=?4, enabled=1 WHERE _id=?1")?
                .execute(params![id, hour, minutes, values.later()])
                .map(drop)
        }
        // The next one is calculated after one has rung; it is switched on and off.
        6..=17 => db
            .prepare_cached("UPDATE alarms SET enabled=?2, alarmtime=?3 WHERE _id=?1")?
            .execute(params![id, values.below(2), values.later()])
            .map(drop),
        18 => insert(db, values),
        _ => db
            .prepare_cached("DELETE FROM alarms WHERE _id=(SELECT max(_id) FROM alarms) AND _id>8")?
            .execute([])
            .map(drop),
    }
}
