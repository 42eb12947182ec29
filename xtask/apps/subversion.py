"""Subversion: a checkout, then adds and an update, each a process of its own. The working copy's database is `.svn/wc.db`.

Subversion sets a rollback journal that is truncated, and synchronous = OFF: it waits for no commit, and neither does litefoot.
"""

import shutil

import common

ABOUT = "Subversion: a checkout, fifty adds and an update of a working copy"
REQUIREMENTS = []
PYTHON = []
DATABASE = "copy/.svn/wc.db"
COUNT = "SELECT count(*) FROM NODES"
FILES = 400

SCRIPT = """
set -e
rm -rf copy
svn --quiet checkout {url} copy
cd copy
for folder in 1 2 3 4 5; do
    mkdir new$folder
    for file in 1 2 3 4 5 6 7 8 9 10; do echo $folder $file > new$folder/$file; svn --quiet add --parents new$folder/$file; done
done
svn --quiet update
svn status > /dev/null
"""


def missing():
    return common.absent("svn", "svnadmin", packages="subversion")


def prepare(app):
    app.run(["svnadmin", "create", "repository"])
    source = app.folder / "source"
    for number in range(FILES):
        folder = source / f"folder{number // 40}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"file{number}.txt").write_text(f"{number}\n" * 50)
    app.run(["svn", "--quiet", "import", "--message", "all", source, (app.folder / "repository").as_uri()])


def command(app):
    return ["sh", "-c", SCRIPT.format(url=(app.folder / "repository").as_uri())]


def settle(app):
    shutil.rmtree(app.folder / "copy", ignore_errors=True)
