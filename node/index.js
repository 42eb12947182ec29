'use strict';
// Brings litefoot into the SQLite of a driver: it becomes the default VFS for the life of the process.
//
// The library knows nothing of Node, so one file per processor and C library serves every version and every driver.

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

// The entry point that also makes litefoot the default VFS.
const ENTRY = 'sqlite3_litefootdefault_init';

// The path of the library: the file that LITEFOOT_LIBRARY names, or the one of this package for this machine.
function loadablePath() {
  if (process.env.LITEFOOT_LIBRARY) return path.resolve(process.env.LITEFOOT_LIBRARY);
  const platform = `${process.platform}-${process.arch}-${isGlibc() ? 'glibc' : 'musl'}`;
  const file = path.join(__dirname, 'prebuilds', platform, 'liblitefoot.so');
  if (!fs.existsSync(file)) {
    throw new Error(`litefoot: this package has no library for ${platform}; build it, and name it in LITEFOOT_LIBRARY`);
  }
  return file;
}

// Only glibc says its version in a report.
function isGlibc() {
  return Boolean(process.report.getReport().header.glibcVersionRuntime);
}

// Loads litefoot through an open connection of node:sqlite (opened with allowExtension), better-sqlite3 or bun:sqlite.
// Every database that the same driver opens from then on is on litefoot; the connection itself stays as it is.
function load(connection) {
  const library = loadablePath();
  if (connection.constructor.name !== 'DatabaseSync') {
    connection.loadExtension(library, ENTRY);
    return;
  }
  // Older versions of node:sqlite take no entry point: SQLite makes its name out of the file's. A link is the same file to
  // the loader, so the library is loaded once.
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'litefoot-'));
  const link = path.join(folder, 'liblitefootdefault.so');
  try {
    fs.symlinkSync(fs.realpathSync(library), link);
    connection.enableLoadExtension(true);
    connection.loadExtension(link);
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

module.exports = { load, loadablePath };
