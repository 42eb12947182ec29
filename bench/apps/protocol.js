// How a program of `litefoot bench apps` talks with the driver: as protocol.py, which describes it.
"use strict";

const fs = require("node:fs");

const QUESTION = `
  SELECT name, value FROM litefoot_stats
  WHERE name LIKE 'commits!_%' ESCAPE '!' OR name LIKE '%!_syncs' ESCAPE '!' OR name LIKE '%!_block_bytes' ESCAPE '!'`;

const say = (...words) => fs.writeSync(1, `${words.join(" ")}\n`);

// Reads to the end of a line; without a driver there is nothing left to do.
function wait() {
  const byte = Buffer.alloc(1);
  do {
    if (fs.readSync(0, byte) === 0) process.exit(1);
  } while (byte[0] !== 10);
}

// Numbers that are the same in each run.
function random(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

async function figures(workload) {
  try {
    return new Map((await workload.ask(QUESTION)).map(({ name, value }) => [name, value]));
  } catch {
    return new Map(); // There is no litefoot_stats without litefoot.
  }
}

// `open` gives an object with `commit`, `ask` and `close`, each of which may be asynchronous.
async function main(patterns) {
  const [pattern, file, commits, warmup, journal, synchronous] = process.argv.slice(2);
  const pragmas = [`journal_mode = ${journal}`, `synchronous = ${synchronous}`];
  const workload = await patterns[pattern](file, pragmas, process.env.LITEFOOT_LIBRARY);
  const [first, end] = [Number(warmup), Number(warmup) + Number(commits)];
  for (let number = 0; number < first; number++) await workload.commit(number);
  const before = await figures(workload);
  say("ready");
  wait();
  const begun = process.hrtime.bigint();
  for (let number = first; number < end; number++) await workload.commit(number);
  say("done", Number(process.hrtime.bigint() - begun) / 1e9);
  for (const [name, value] of await figures(workload)) say("figure", name, value - (before.get(name) ?? 0));
  say("end");
  wait();
  await workload.close();
}

module.exports = { main, random };
