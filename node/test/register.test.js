'use strict';
// `litefoot/register` before applications with and without drivers. The driver better-sqlite3 is a stand-in that notes what it is
// told; node:sqlite is the real one, where this Node has it and LITEFOOT_LIBRARY names the library.

const { spawnSync } = require('node:child_process');
const assert = require('node:assert');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const test = require('node:test');

const REGISTER = path.join(__dirname, '..', 'register.js');
const hasSqlite = Boolean(process.getBuiltinModule?.('node:sqlite'));

const STAND_IN = `module.exports = class Database {
  constructor(name) { this.name = name; }
  loadExtension(...words) { console.log(JSON.stringify([this.name, ...words])); }
  close() { console.log('closed'); }
};`;

// Runs an application in a folder of its own, and answers what it said.
function run(code, environment, withDriver) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'litefoot-test-'));
  try {
    if (withDriver) {
      const driver = path.join(folder, 'node_modules/better-sqlite3');
      fs.mkdirSync(driver, { recursive: true });
      fs.writeFileSync(path.join(driver, 'index.js'), STAND_IN);
    }
    fs.writeFileSync(path.join(folder, 'app.js'), code);
    const { LITEFOOT, ...clean } = process.env;
    const options = { cwd: folder, env: { ...clean, ...environment }, encoding: 'utf8' };
    const { status, stdout, stderr } = spawnSync(process.execPath, ['--import', REGISTER, 'app.js'], options);
    return { status, stdout, stderr };
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

test('better-sqlite3 loads the library as default, before the first line of the application', () => {
  const { status, stdout } = run("console.log('application')", { LITEFOOT_LIBRARY: '/some/liblitefoot.so' }, true);
  assert.strictEqual(status, 0);
  const loaded = JSON.stringify([':memory:', '/some/liblitefoot.so', 'sqlite3_litefootdefault_init']);
  assert.strictEqual(stdout, `${loaded}\nclosed\napplication\n`);
});

test('LITEFOOT=off leaves everything as it is', () => {
  assert.deepStrictEqual(run("console.log('application')", { LITEFOOT: 'off' }, true), {
    status: 0,
    stdout: 'application\n',
    stderr: '',
  });
});

test('without a library the application runs, and a line says why it is not on litefoot', () => {
  const { status, stdout, stderr } = run("console.log('application')", { LITEFOOT_LIBRARY: '/nowhere/liblitefoot.so' }, false);
  assert.strictEqual(status, 0);
  assert.strictEqual(stdout, 'application\n');
  assert.match(stderr, hasSqlite ? /^litefoot: not in use by node:sqlite: / : /^litefoot: not in use: neither /);
});

test('node:sqlite is on litefoot', { skip: !hasSqlite || !process.env.LITEFOOT_LIBRARY }, () => {
  const code = `const { DatabaseSync } = require('node:sqlite');
    const db = new DatabaseSync('app.db');
    db.exec('CREATE TABLE t(x)');
    console.log(Object.values(db.prepare('PRAGMA litefoot_version').get()).length);`;
  const { stdout } = run(code, { LITEFOOT_LIBRARY: process.env.LITEFOOT_LIBRARY }, false);
  assert.strictEqual(stdout, '1\n');
});
