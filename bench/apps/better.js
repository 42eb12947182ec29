// better-sqlite3, which has an SQLite of its own inside: an order and its customer's balance, in a transaction.
"use strict";

const { main, random } = require("./protocol.js");
const Database = require("better-sqlite3");

function open(file, pragmas, library) {
  if (library) {
    const loader = new Database(":memory:");
    loader.loadExtension(library, "sqlite3_litefootdefault_init");
    loader.close();
  }
  const db = new Database(file);
  for (const pragma of pragmas) db.pragma(pragma);
  db.exec(`
    CREATE TABLE customer(id INTEGER PRIMARY KEY, balance REAL NOT NULL);
    CREATE TABLE orders(id INTEGER PRIMARY KEY, customer INTEGER NOT NULL REFERENCES customer, number TEXT NOT NULL, total REAL);
    CREATE INDEX orders_number ON orders(number);`);
  const customers = 200;
  const next = random(1);
  const customer = db.prepare("INSERT INTO customer VALUES (?, 0)");
  db.transaction(() => {
    for (let id = 1; id <= customers; id++) customer.run(id);
  })();
  const insert = db.prepare("INSERT INTO orders(customer, number, total) VALUES (?, ?, ?)");
  const update = db.prepare("UPDATE customer SET balance = balance + ? WHERE id = ?");
  const order = db.transaction((id, number, total) => {
    insert.run(id, number, total);
    update.run(total, id);
  });
  return {
    commit: () => order(1 + Math.floor(next() * customers), next().toString(36).slice(2), Math.round(next() * 1e4) / 100),
    ask: (question) => db.prepare(question).all(),
    close: () => db.close(),
  };
}

main({ better_sqlite3: open });
