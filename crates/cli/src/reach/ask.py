# Which SQLites this Python has; nothing is opened, and of other packages nothing is imported.
import importlib.util, json, os, sys

answer = {"executable": os.path.realpath(sys.executable), "version": None, "extensions": None, "files": []}
try:
    import sqlite3, _sqlite3

    answer["version"] = sqlite3.sqlite_version
    answer["extensions"] = hasattr(sqlite3.Connection, "enable_load_extension")
    if getattr(_sqlite3, "__file__", None):
        answer["files"].append(_sqlite3.__file__)
except ImportError:
    pass
for name in ("apsw", "pysqlite3", "sqlcipher3", "libsql"):
    found = importlib.util.find_spec(name)
    for folder in (found and found.submodule_search_locations) or []:
        answer["files"] += [os.path.join(folder, file) for file in os.listdir(folder) if file.endswith(".so")]
print(json.dumps(answer))
