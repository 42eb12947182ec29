#!/bin/sh
# Two programs that know nothing of litefoot, on litefoot: a Python script and the sqlite3 shell.
set -eu
here=$(dirname "$0")
: "${LITEFOOT_PROGRAM:=litefoot}"

"$LITEFOOT_PROGRAM" run -- python3 "$here/readings.py" readings.db

# That litefoot is beneath shows only when it is asked. Its figures are of this process, which made one commit.
"$LITEFOOT_PROGRAM" run -- sqlite3 -batch readings.db "
    INSERT INTO reading VALUES (1772409600, 'yard', 5.5);
    SELECT count(*) || ' rows, ' ||
           (SELECT sum(value) FROM litefoot_stats WHERE name LIKE 'commits_%') || ' commits by litefoot'
    FROM reading;
"
