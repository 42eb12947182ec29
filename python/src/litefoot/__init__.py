"""SQLite for the edge: the stdlib's `sqlite3` on a storage layer that treads lightly on flash.

    import litefoot

    db = litefoot.connect("app.db")  # a sqlite3.Connection

SQL, API and file format stay SQLite's. The files are a valid database for stock SQLite at all times.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path
from typing import Any, Callable, Union
from urllib.parse import quote, quote_from_bytes

__all__ = ["NotAvailable", "OPTIONS", "connect", "load", "loadable_path", "make_default", "stats"]
__version__ = "0.1.0"

OPTIONS = (
    # table: option-names, by cargo xtask docs
    "buffer_pool_size",
    "direct_io",
    "write_buffer_size",
    "page_cleaner",
    "max_dirty_ratio",
    "commit_log",
    "commit_log_size",
    "max_wal_size",
    "flush_interval_ms",
    "checkpoint_timeout",
    "writer_timeout_ms",
    "atomic",
    "commit_log_path",
    "tier",
    "tier_size",
    "tier_policy",
    "tier_latencies",
    "sharing",
    "group_socket",
    # end of table
)
"""The options that are litefoot's own."""

# Those of sqlite3.connect; `mode` (ro, rw, rwc) is SQLite's, and goes into the URI.
_PYTHONS = (
    "timeout",
    "detect_types",
    "isolation_level",
    "check_same_thread",
    "factory",
    "cached_statements",
    "autocommit",
)
_OLDEST_SQLITE = (3, 40)
# The extension's entry point that also makes litefoot the default VFS.
_DEFAULT_ENTRY = "sqlite3_litefootdefault_init"

_StrPath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
_registering = threading.Lock()


class NotAvailable(sqlite3.NotSupportedError):
    """Litefoot cannot be brought into this Python's SQLite; the message says what to do."""


def connect(path: _StrPath, *, uri: bool = False, **options: Any) -> sqlite3.Connection:
    """Opens a database on litefoot.

    `path` is what `sqlite3.connect` takes, `":memory:"` included; with `uri=True` it may be a `file:` URI.
    Options of `sqlite3.connect` are passed on. `mode` ("ro", "rw", "rwc") is SQLite's. Those in `OPTIONS` are
    litefoot's: a str, an int, a bool, or a path for `commit_log_path` and `tier`.

    Raises `TypeError` for an unknown option, `sqlite3.OperationalError` for a value that litefoot does not take,
    and `NotAvailable`.
    """
    parameters = {name: options.pop(name) for name in list(options) if name not in _PYTHONS}
    unknown = [name for name in parameters if name not in (*OPTIONS, "mode")]
    if unknown:
        raise TypeError(
            f"unknown option {unknown[0]!r}; litefoot knows {', '.join(OPTIONS)}; "
            f"and it passes on mode, uri, {', '.join(_PYTHONS)}"
        )
    name = _uri(os.fsencode(path), uri, parameters)
    _register()
    db: sqlite3.Connection = sqlite3.connect(name, uri=True, **options)
    return db


def load(connection: sqlite3.Connection) -> None:
    """Loads litefoot through a connection, for the life of the process.

    The connection itself stays on the VFS it was opened with. Any that is opened later can use litefoot:
    `sqlite3.connect("file:app.db?vfs=litefoot", uri=True)`.
    """
    # A second copy beside the one that `litefoot run` preloads would not know which databases that has open.
    if not hasattr(connection, "load_extension") or "litefoot" in os.environ.get("LD_PRELOAD", ""):
        _register()
        return
    path = loadable_path()
    _allowed(connection, lambda: connection.load_extension(path))


def make_default() -> None:
    """Puts every database on litefoot that this Python's `sqlite3` opens from now on, by whatever code.

    With `LITEFOOT=on` in the environment that happens before the first line of the application (`litefoot.pth`).
    """
    if "litefoot" in os.environ.get("LD_PRELOAD", ""):
        return
    _check_version()
    path = loadable_path()
    connection = sqlite3.connect(":memory:")
    try:
        if hasattr(connection, "load_extension"):
            statement = "SELECT load_extension(?, ?)"
            _allowed(connection, lambda: connection.execute(statement, (path, _DEFAULT_ENTRY)).fetchone())
        else:
            _load_beneath(path, _DEFAULT_ENTRY)
    finally:
        connection.close()


def _allowed(connection: sqlite3.Connection, load_extension: Callable[[], Any]) -> None:
    """Loads an extension, with permission for as long as that takes."""
    try:
        load_extension()
    except sqlite3.OperationalError as error:
        if "not authorized" not in str(error):
            raise
        connection.enable_load_extension(True)
        try:
            load_extension()
        finally:
            connection.enable_load_extension(False)


def loadable_path() -> str:
    """The path of the extension, as `load_extension` takes it."""
    path = Path(__file__).with_name("liblitefoot.so")
    if not path.is_file():
        raise NotAvailable(
            f"litefoot: {path} is missing. Install litefoot with pip; from a clone of its repository, "
            "`pip install ./python` builds the extension, or takes the one that LITEFOOT_LIBRARY names"
        )
    return str(path)


def stats(connection: sqlite3.Connection) -> dict[str, int]:
    """The figures of a connection's main database; empty where that is not a file on litefoot."""
    cursor = connection.cursor()
    cursor.row_factory = None
    try:
        return dict(cursor.execute("SELECT name, value FROM litefoot_stats").fetchall())
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        return {}
    finally:
        cursor.close()


def _uri(path: bytes, is_uri: bool, parameters: dict[str, Any]) -> str:
    """A URI for a path, or of one; of two parameters with one name SQLite takes the first, but the last `vfs`."""
    given = b""
    if is_uri and path.startswith(b"file:"):
        path, _, given = path.partition(b"#")[0].partition(b"?")
        name = os.fsdecode(path)
    elif b"\0" in path:
        raise ValueError("embedded null byte in a path")
    else:
        # What follows two slashes would be a host's name, so an absolute path gets the empty one.
        name = ("file://" if path.startswith(b"/") else "file:") + quote_from_bytes(path)
    query = [f"{key}={quote(_text(key, value), safe='/')}" for key, value in parameters.items()]
    return f"{name}?{'&'.join([*query, *filter(None, [os.fsdecode(given)]), 'vfs=litefoot'])}"


def _text(name: str, value: Any) -> bytes:
    """An option's value as litefoot reads it."""
    if isinstance(value, int):
        return str(int(value)).encode()
    if isinstance(value, (str, bytes, os.PathLike)):
        return os.fsencode(value)
    raise TypeError(f"option {name}={value!r}: takes a str, an int, a bool or a path")


def _register() -> None:
    """Makes the VFS known to the SQLite of the module `sqlite3`, unless it is: loaded, or by `litefoot run`."""
    with _registering:
        if _is_registered():
            return
        _check_version()
        connection = sqlite3.connect(":memory:")
        try:
            if hasattr(connection, "load_extension"):
                load(connection)
            else:
                _load_beneath(loadable_path())
        finally:
            connection.close()
        if not _is_registered():
            raise _cannot("the SQLite that was found is not the one that sqlite3 uses")


def _check_version() -> None:
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise NotAvailable(
            f"litefoot: this Python has SQLite {sqlite3.sqlite_version}, and 3.40 or later is needed: "
            "update the system's SQLite, or use a newer Python"
        )


def _is_registered() -> bool:
    try:
        sqlite3.connect("file::memory:?vfs=litefoot", uri=True).close()
    except sqlite3.OperationalError as error:
        if "no such vfs" not in str(error):
            raise
        return False
    return True


def _load_beneath(path: str, entry: str | None = None) -> None:
    """Loads the extension without Python's help: through the library that the module `_sqlite3` links."""
    try:
        import _sqlite3
        import ctypes

        # A symbol is looked for in the module and in the libraries it was linked to.
        sqlite = ctypes.CDLL(getattr(_sqlite3, "__file__", None))
        open_, close = sqlite.sqlite3_open, sqlite.sqlite3_close
        enable, load_extension = sqlite.sqlite3_enable_load_extension, sqlite.sqlite3_load_extension
        free = sqlite.sqlite3_free
    except (ImportError, OSError, AttributeError) as error:
        raise _cannot(f"and its SQLite is out of reach ({error})") from None
    db, message = ctypes.c_void_p(), ctypes.c_char_p()
    try:
        if open_(b":memory:", ctypes.byref(db)) != 0:
            raise _cannot("and its SQLite cannot open a database in memory")
        enable(db, 1)
        if load_extension(db, os.fsencode(path), entry and entry.encode(), ctypes.byref(message)) != 0:
            why = (message.value or b"no reason given").decode(errors="replace")
            free(message)
            raise _cannot(f"and its SQLite refuses: {why}")
    finally:
        close(db)


def _cannot(why: str) -> NotAvailable:
    return NotAvailable(
        f"litefoot: this Python was built without sqlite3.Connection.load_extension, {why}. Any of these helps: "
        "the Python of your distribution (python3 of Debian, Ubuntu, Raspberry Pi OS, Fedora), a Python built with "
        "--enable-loadable-sqlite-extensions, or, where it links libsqlite3.so.0, `litefoot run -- python3 app.py`"
    )
