"""Moonraker: the server of 3D printers, which has no printer here; an interface of it saves its settings, over its API."""

import shutil
import socket

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
import http.client, json, signal, subprocess, sys, time

PORT = int(sys.argv[1])


def ask(method, path, body=None):
    server = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
    server.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
    answer = server.getresponse()
    said = answer.read()
    if answer.status != 200:
        raise SystemExit(f"{path}: {answer.status} {said}")
    return json.loads(said)


server = subprocess.Popen([sys.executable, "-m", "moonraker", "-d", "data"], stdout=subprocess.DEVNULL)
try:
    for _ in range(600):
        try:
            ask("GET", "/server/info")
            break
        except OSError:
            if server.poll() is not None:
                raise SystemExit("moonraker does not start: see data/logs")
            time.sleep(0.1)
    for number in range(int(sys.argv[2])):
        ask("POST", "/server/database/item", {"namespace": f"page{number % 10}", "key": f"setting{number}", "value": {"width": number}})
finally:
    server.send_signal(signal.SIGTERM)
    server.wait(60)
'''


def missing():
    return None if shutil.which("sqlite3") else "sqlite3: apt-get install sqlite3"


def prepare(app):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        app.port = probe.getsockname()[1]
    (app.folder / "data/config").mkdir(parents=True)
    (app.folder / "data/config/moonraker.conf").write_text(CONFIGURATION.format(port=app.port, folder=app.folder))
    (app.folder / "interface.py").write_text(SCRIPT)
    # The schema, and the settings of its own.
    app.run([app.python, "interface.py", app.port, 1])


def command(app):
    return [app.python, "interface.py", app.port, SETTINGS]


def settle(app):
    """A setting that is there is written over, and the count would not grow."""
    app.run(["sqlite3", app.database, "DELETE FROM namespace_store WHERE namespace LIKE 'page%'"])
