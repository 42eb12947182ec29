// The smoke test of packages: inserts a row, says who is beneath and how many rows there are, and dies if told to.
import { DatabaseSync } from 'node:sqlite';

const db = new DatabaseSync('app.db');
db.exec('CREATE TABLE IF NOT EXISTS t(x); INSERT INTO t VALUES (1)');
const [version] = Object.values(db.prepare('PRAGMA litefoot_version').get() ?? { stock: 'stock' });
console.log(`${version}\n${db.prepare('SELECT count(*) AS n FROM t').get().n}`);
if (process.argv[2] === 'kill') process.kill(process.pid, 'SIGKILL');
