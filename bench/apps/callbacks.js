// The package sqlite3 of npm, with its callbacks: a message, and its entry in an index.
"use strict";

const { main, random } = require("./protocol.js");
const { Database, OPEN_READWRITE, OPEN_CREATE, OPEN_URI } = require("sqlite3");

// A method's callback as a promise.
const done = (object, method, ...args) =>
  new Promise((resolve, reject) =>
    object[method](...args, (error, result) => (error ? reject(error) : resolve(result))),
  );

const connect = (name, flags) =>
  new Promise((resolve, reject) => {
    const db = new Database(name, flags, (error) => (error ? reject(error) : resolve(db)));
  });

async function open(file, pragmas, library) {
  const flags = OPEN_READWRITE | OPEN_CREATE | OPEN_URI;
  if (library) {
    const loader = await connect(":memory:", flags);
    await done(loader, "loadExtension", library);
    await done(loader, "close");
  }
  const db = await connect(library ? `file:${file}?vfs=litefoot` : file, flags);
  for (const pragma of pragmas) await done(db, "exec", `PRAGMA ${pragma}`);
  await done(
    db,
    "exec",
    `CREATE TABLE message(id INTEGER PRIMARY KEY AUTOINCREMENT, sender TEXT NOT NULL, body TEXT);
     CREATE INDEX message_sender ON message(sender);`,
  );
  const next = random(1);
  const word = () => next().toString(36).slice(2);
  const insert = db.prepare("INSERT INTO message(sender, body) VALUES (?, ?)");
  return {
    commit: () => done(insert, "run", word(), Array.from({ length: 12 }, word).join(" ")),
    ask: (question) => done(db, "all", question),
    async close() {
      await done(insert, "finalize");
      await done(db, "close");
    },
  };
}

main({ node_sqlite3: open });
