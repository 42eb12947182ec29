// Sensor readings with better-sqlite3, which carries an SQLite of its own and takes no URIs: the second entry
// point of the extension makes litefoot the VFS of every database that is opened from then on.

const Database = require("better-sqlite3");

const library = process.env.LITEFOOT_LIBRARY ?? "./liblitefoot.so";
const loader = new Database(":memory:");
loader.loadExtension(library, "sqlite3_litefootdefault_init");
loader.close();

const db = new Database("readings.db");
db.pragma("journal_mode = WAL");
db.exec("CREATE TABLE IF NOT EXISTS reading(at INTEGER, sensor TEXT, celsius REAL)");

const insert = db.prepare("INSERT INTO reading VALUES (?, ?, ?)");
const both = db.transaction((at, hall, yard) => {
  insert.run(at, "hall", hall);
  insert.run(at, "yard", yard);
});
for (let minute = 0; minute < 500; minute++) {
  both(1772323200 + 60 * minute, 20 + (minute % 60) / 10, 5 + (minute % 40) / 10);
}

const means = db.prepare("SELECT sensor, round(avg(celsius), 2) AS celsius FROM reading GROUP BY sensor");
for (const { sensor, celsius } of means.all()) console.log(sensor, celsius);

const rows = db.prepare("SELECT count(*) FROM reading").pluck().get();
const commits = db
  .prepare("SELECT sum(value) FROM litefoot_stats WHERE name LIKE 'commits_%'")
  .pluck()
  .get();
console.log(`${rows} rows, ${commits} commits by litefoot`);
db.close();
