"""What `litefoot.pth` runs when Python starts with `LITEFOOT=on`: every `sqlite3` of the application is on litefoot.

For programs that `litefoot run` cannot reach: a Python that carries its own SQLite, or is linked statically.
"""

import sys

try:
    import litefoot

    litefoot.make_default()
except Exception as error:  # noqa: BLE001 - the application has to start
    print(f"litefoot: not in use: {error}", file=sys.stderr)
