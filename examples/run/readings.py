"""An ordinary program on Python's sqlite3. It knows nothing of litefoot, and runs with and without."""

import sqlite3
import sys

(name,) = sys.argv[1:]
db = sqlite3.connect(name)
db.execute("CREATE TABLE IF NOT EXISTS reading(at INTEGER, sensor TEXT, celsius REAL)")
for minute in range(500):
    with db:
        reading = (1772323200 + 60 * minute, "hall" if minute % 2 else "yard", 20 + minute % 60 / 10)
        db.execute("INSERT INTO reading VALUES (?, ?, ?)", reading)
for sensor, celsius in db.execute("SELECT sensor, round(avg(celsius), 2) FROM reading GROUP BY sensor"):
    print(sensor, celsius)
db.close()
