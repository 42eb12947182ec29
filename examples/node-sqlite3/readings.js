// Sensor readings with the npm package sqlite3, which n8n, Ghost and, as a fork, Uptime Kuma use. It has SQLite inside, but calls it
// through its symbol table, so that preloading reaches it: litefoot run -- node readings.js. Nothing here knows of litefoot but the
// last query, which fails without it.

const sqlite3 = require("sqlite3");

const db = new sqlite3.Database("readings.db");
const run = (sql, ...values) =>
  new Promise((done, failed) => db.run(sql, values, (error) => (error ? failed(error) : done())));
const all = (sql) =>
  new Promise((done, failed) => db.all(sql, (error, rows) => (error ? failed(error) : done(rows))));

async function main() {
  await run("PRAGMA journal_mode = WAL");
  await run("CREATE TABLE IF NOT EXISTS reading(at INTEGER, sensor TEXT, celsius REAL)");
  for (let minute = 0; minute < 500; minute++) {
    const at = 1772323200 + 60 * minute;
    const [hall, yard] = [20 + (minute % 60) / 10, 5 + (minute % 40) / 10];
    await run("INSERT INTO reading VALUES (?, 'hall', ?), (?, 'yard', ?)", at, hall, at, yard);
  }
  const means = "SELECT sensor, round(avg(celsius), 2) AS celsius FROM reading GROUP BY sensor";
  for (const { sensor, celsius } of await all(means)) console.log(sensor, celsius);
  const [{ rows }] = await all("SELECT count(*) AS rows FROM reading");
  const [{ commits }] = await all("SELECT sum(value) AS commits FROM litefoot_stats WHERE name LIKE 'commits_%'");
  console.log(`${rows} rows, ${commits} commits by litefoot`);
}

main().finally(() => db.close());
