"""Subversion: each commit adds so many files to a working copy. Its database is the working copy's, `.svn/wc.db`.

Subversion has settings of its own: a rollback journal that is truncated, and synchronous = OFF. Each of its commands is a
process that opens the database and closes it. The files are empty, and the repository is on another device, so that what
is counted is the database's for the most part.
"""

import os
import subprocess
import tempfile
from pathlib import Path

import protocol

FILES = 300


def svn(*arguments, directory):
    command = ["svn", "--quiet", "--non-interactive", *arguments]
    subprocess.run(command, cwd=directory, check=True, stdin=subprocess.DEVNULL)


class Commits(protocol.Workload):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        place = Path(self.file).parent
        self.copy = place / "copy"
        # The driver removes what is there.
        repository = Path(tempfile.mkdtemp(prefix="repository-", dir=os.environ.get("APPS_SCRATCH")))
        subprocess.run(["svnadmin", "create", repository], check=True)
        svn("checkout", repository.as_uri(), self.copy, directory=place)
        Path(self.file).symlink_to(self.copy / ".svn/wc.db")

    def commit(self, number):
        folder = self.copy / f"folder{number}"
        folder.mkdir()
        for file in range(FILES):
            (folder / f"file{file}.txt").touch()
        svn("add", folder.name, directory=self.copy)
        svn("commit", "--message", f"commit {number}", directory=self.copy)


if __name__ == "__main__":
    protocol.main({"svn": Commits})
