#!/bin/sh
# Two programs that know nothing of litefoot, on litefoot: a Python script and the sqlite3 shell.
set -eu
here=$(dirname "$0")
: "${LITEFOOT_PROGRAM:=litefoot}"

"$LITEFOOT_PROGRAM" run -- python3 "$here/readings.py" readings.db

# What beneath it is litefoot can only be seen by asking.
"$LITEFOOT_PROGRAM" run -- sqlite3 -batch readings.db "
    INSERT INTO reading VALUES (1772409600, 'yard', 5.5);
    SELECT count(*) || ' rows, ' ||
           (SELECT sum(value) FROM litefoot_stats WHERE name LIKE 'commits_%') || ' commits by litefoot'
    FROM reading;
"
