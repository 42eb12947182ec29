#!/bin/sh
# Sensor readings in the sqlite3 shell: `.load` brings litefoot in, `vfs=litefoot` in the name opens the file on it.
set -eu
: "${LITEFOOT_LIBRARY:=./liblitefoot}"

sqlite3 -batch :memory: <<SQL
.bail on
.load "$LITEFOOT_LIBRARY"
.open file:readings.db?vfs=litefoot

CREATE TABLE IF NOT EXISTS reading(at INTEGER, sensor TEXT, celsius REAL);

-- An hour at once, and one that comes late.
BEGIN;
WITH RECURSIVE minute(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM minute WHERE n < 59)
INSERT INTO reading SELECT 1772323200 + 60 * n, 'hall', 20 + n / 10.0 FROM minute;
COMMIT;
INSERT INTO reading VALUES (1772323200, 'yard', 5.5);

SELECT sensor || ' ' || round(avg(celsius), 2) FROM reading GROUP BY sensor;
SELECT count(*) || ' rows, ' ||
       (SELECT sum(value) FROM litefoot_stats WHERE name LIKE 'commits_%') || ' commits by litefoot'
FROM reading;
SQL
