'use strict';
// `node --import litefoot/register app.js`, or `bun --preload litefoot/register app.js`: puts the drivers that the application can
// reach on litefoot before its first line. With LITEFOOT=off it does nothing.

const { createRequire } = require('node:module');
const path = require('node:path');
const { load } = require('./index.js');

// Each opens a database in memory, or answers nothing where there is no such driver.
const drivers = {
  'bun:sqlite': () => process.versions.bun && new (require('bun:sqlite').Database)(':memory:'),
  'node:sqlite': () => {
    if (process.versions.bun) return undefined;
    const sqlite = quietly(() => process.getBuiltinModule?.('node:sqlite'));
    return sqlite && new sqlite.DatabaseSync(':memory:', { allowExtension: true });
  },
  'better-sqlite3': () => {
    const found = places().map((place) => createRequire(place)).find((from) => resolves(from, 'better-sqlite3'));
    return found && new (found('better-sqlite3'))(':memory:');
  },
};

// The places from which the application looks for its packages.
function places() {
  const script = process.argv[1] ? [path.resolve(process.argv[1])] : [];
  return [...script, path.join(process.cwd(), 'package.json')];
}

function resolves(from, name) {
  try {
    return Boolean(from.resolve(name));
  } catch {
    return false;
  }
}

// An application that does not use node:sqlite shall not be warned that it is experimental.
function quietly(action) {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return action();
  } finally {
    process.emitWarning = emitWarning;
  }
}

if (process.env.LITEFOOT !== 'off') {
  let found = 0;
  for (const [name, open] of Object.entries(drivers)) {
    try {
      const connection = open();
      if (!connection) continue;
      found += 1;
      load(connection);
      connection.close();
    } catch (error) {
      process.stderr.write(`litefoot: not in use by ${name}: ${error.message}\n`);
    }
  }
  if (!found) process.stderr.write('litefoot: not in use: neither node:sqlite nor better-sqlite3 is there\n');
}
