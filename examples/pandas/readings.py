"""A day of sensor readings into a table and back, with pandas.

pandas takes a connection of sqlite3, and that is what litefoot.connect returns.
"""

import litefoot
import pandas as pd

MINUTES = 24 * 60

db = litefoot.connect("readings.db")
db.execute("PRAGMA journal_mode = WAL")

at = pd.date_range("2026-03-01", periods=MINUTES, freq="min")
readings = pd.DataFrame(
    {
        "at": at.strftime("%Y-%m-%d %H:%M"),
        "sensor": ["hall", "yard"] * (MINUTES // 2),
        "celsius": [20 + minute % 60 / 10 for minute in range(MINUTES)],
    }
)

# A gateway writes what it has gathered every ten minutes: each chunk is one durable transaction.
for _, chunk in readings.groupby(readings["at"].str[:-1]):
    chunk.to_sql("reading", db, if_exists="append", index=False)

means = pd.read_sql("SELECT sensor, avg(celsius) AS celsius FROM reading GROUP BY sensor", db, index_col="sensor")
print(means.round(2).to_string())

rows = pd.read_sql("SELECT count(*) AS n FROM reading", db)["n"].item()
stats = litefoot.stats(db)
commits = sum(value for name, value in stats.items() if name.startswith("commits_"))
print(f"{rows} rows, {commits} commits by litefoot")
db.close()
