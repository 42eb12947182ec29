"""Moonraker: the server of 3D printers, which has no printer here; an interface of it saves its settings, over its API."""

import common

ABOUT = "Moonraker: 1,000 settings saved by an interface, over its API"
REQUIREMENTS = ["moonraker==0.11.0"]
PYTHON = []
DATABASE = "data/database/moonraker-sql.db"
COUNT = "SELECT count(*) FROM namespace_store"
SETTINGS = 1000

CONFIGURATION = """
[server]
host: 127.0.0.1
port: {port}
klippy_uds_address: {folder}/klippy.sock

[authorization]
trusted_clients: 127.0.0.1

[machine]
provider: none
validate_service: False
"""

SCRIPT = '''
import http.client, sys

from served import ask, serving


def call(method, path, body=None):
    return ask(http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60), method, path, body)


with serving("moonraker", "-d", "data", is_up=lambda: call("GET", "/server/info"), log="data/logs"):
    for number in range(int(sys.argv[2])):
        setting = {"namespace": f"page{number % 10}", "key": f"setting{number}", "value": {"width": number}}
        call("POST", "/server/database/item", setting)
'''


def prepare(app):
    app.port = common.free_port()
    (app.folder / "data/config").mkdir(parents=True)
    (app.folder / "data/config/moonraker.conf").write_text(CONFIGURATION.format(port=app.port, folder=app.folder))
    app.write_client("interface.py", SCRIPT)
    # The schema, and the settings of its own.
    app.run([app.python, "interface.py", app.port, 1])


def command(app):
    return [app.python, "interface.py", app.port, SETTINGS]


def settle(app):
    """A setting that is there is written over, and the count would not grow."""
    app.run(["sqlite3", app.database, "DELETE FROM namespace_store WHERE namespace LIKE 'page%'"])
