"""MediaWiki of Debian's: pages written and rewritten by its own `edit.php`, each edit a PHP process of its own, as under CGI.

MediaWiki sets a rollback journal, and keeps its text, its search index and its caches in SQLite.
"""

from pathlib import Path

import common

ABOUT = "MediaWiki: 40 edits of 7 pages, each a process of PHP's"
REQUIREMENTS = []
PYTHON = []
DATABASE = "data/wiki.sqlite"
COUNT = "SELECT count(*) FROM revision"
MAINTENANCE = Path("/usr/share/mediawiki/maintenance")

SCRIPT = """
set -e
for number in $(seq 40); do
    echo "Edit $number of a page that [[Page $((number % 10))|links]] to another." |
        php {maintenance}/edit.php --conf LocalSettings.php --user Admin --summary "edit $number" "Page $((number % 7))"
done
"""


def missing():
    return common.absent("php", MAINTENANCE / "edit.php", packages="mediawiki php-cli php-sqlite3")


def prepare(app):
    install = ["php", MAINTENANCE / "install.php", "--dbtype", "sqlite", "--dbname", "wiki", "--dbpath", app.folder / "data"]
    app.run([*install, "--confpath", app.folder, "--server", "http://localhost", "--scriptpath", "", "--pass", "a long password", "Wiki", "Admin"])


def command(app):
    return ["sh", "-c", SCRIPT.format(maintenance=MAINTENANCE)]
