/**
 * Loads litefoot through an open connection of `node:sqlite` (opened with `allowExtension`), `better-sqlite3` or `bun:sqlite`.
 * Every database that the same driver opens from then on is on litefoot; the connection itself stays as it is.
 */
export function load(connection: object): void;

/** The path of the library: the file that `LITEFOOT_LIBRARY` names, or the one of this package for this machine. */
export function loadablePath(): string;
