"""PowerDNS: a zone that grows by `pdnsutil add-record`, each record a process of its own, then a serial number for all of it."""

from pathlib import Path

import common

ABOUT = "PowerDNS: 300 records by `pdnsutil`, each a process"
REQUIREMENTS = []
PYTHON = []
DATABASE = "pdns.db"
COUNT = "SELECT count(*) FROM records"
SCHEMA = Path("/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql")

SCRIPT = """
set -e
for number in $(seq 300); do
    pdnsutil --config-dir=. add-record example.org host$number A 300 192.0.2.$((number % 250 + 1)) > /dev/null
done
pdnsutil --config-dir=. increase-serial example.org
"""


def missing():
    return common.absent("pdnsutil", SCHEMA, packages="pdns-server pdns-backend-sqlite3")


def prepare(app):
    (app.folder / "pdns.conf").write_text(f"launch=gsqlite3\ngsqlite3-database={app.database}\n")
    app.run(["sqlite3", app.database, f".read {SCHEMA}"])
    app.run(["pdnsutil", "--config-dir=.", "create-zone", "example.org", "ns.example.org"])


def command(app):
    return ["sh", "-c", SCRIPT]


def settle(app):
    """A host that is there stays one record, so the count would not grow."""
    app.run(["sqlite3", app.database, "DELETE FROM records WHERE type = 'A'"])
