"""Matrix Synapse: a homeserver with its default database, two users and their messages, over its client API."""

ABOUT = "Matrix Synapse: 60 messages of two users, over its client API"
REQUIREMENTS = ["matrix-synapse==1.163.2"]
PYTHON = []
DATABASE = "homeserver.db"
COUNT = "SELECT count(*) FROM events"
MESSAGES = 60

CONFIGURATION = """
server_name: example.org
pid_file: {folder}/homeserver.pid
signing_key_path: {folder}/signing.key
media_store_path: {folder}/media
log_config: {folder}/log.yaml
database: {{name: sqlite3, args: {{database: {folder}/homeserver.db}}}}
listeners: [{{path: {folder}/http.sock, type: http, x_forwarded: true, resources: [{{names: [client]}}]}}]
registration_shared_secret: of a benchmark
report_stats: false
trusted_key_servers: []
rc_message: {{per_second: 100000, burst_count: 100000}}
rc_login: {{address: {{per_second: 1000, burst_count: 1000}}, account: {{per_second: 1000, burst_count: 1000}}}}
rc_joins: {{local: {{per_second: 1000, burst_count: 1000}}}}
"""
LOGGING = """
version: 1
disable_existing_loggers: false
handlers: {file: {class: logging.FileHandler, filename: homeserver.log}}
root: {level: WARNING, handlers: [file]}
"""

# Starts the server, talks to it, and ends it: what a client's day is.
SCRIPT = '''
import hashlib, hmac, http.client, socket, sys

from served import ask, serving


class Server(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect("http.sock")


def call(method, path, body=None, token=None):
    headers = {"X-Forwarded-For": "127.0.0.1", **({"Authorization": f"Bearer {token}"} if token else {})}
    return ask(Server("localhost", timeout=60), method, path, body, headers)


def register(name):
    nonce = call("GET", "/_synapse/admin/v1/register")["nonce"]
    secret = hmac.new(b"of a benchmark", f"{nonce}\\0{name}\\0a password\\0notadmin".encode(), hashlib.sha1)
    return call("POST", "/_synapse/admin/v1/register", {"nonce": nonce, "username": name, "password": "a password", "mac": secret.hexdigest()})


def login(name):
    body = {"type": "m.login.password", "identifier": {"type": "m.id.user", "user": name}, "password": "a password"}
    return call("POST", "/_matrix/client/v3/login", body)["access_token"]


def talk(messages):
    ada, grace = login("ada"), login("grace")
    invited = {"preset": "trusted_private_chat", "invite": ["@grace:example.org"]}
    room = call("POST", "/_matrix/client/v3/createRoom", invited, ada)["room_id"]
    call("POST", f"/_matrix/client/v3/join/{room}", {}, grace)
    for number in range(messages):
        said = {"msgtype": "m.text", "body": f"message {number}"}
        call("PUT", f"/_matrix/client/v3/rooms/{room}/send/m.room.message/{number}", said, (ada, grace)[number % 2])


is_up = lambda: call("GET", "/_matrix/client/versions")
with serving("synapse.app.homeserver", "-c", "homeserver.yaml", is_up=is_up, log="homeserver.log"):
    if sys.argv[1] == "create":
        register("ada")
        register("grace")
    else:
        talk(int(sys.argv[1]))
'''


def prepare(app):
    (app.folder / "homeserver.yaml").write_text(CONFIGURATION.format(folder=app.folder))
    (app.folder / "log.yaml").write_text(LOGGING)
    app.write_client("day.py", SCRIPT)
    app.run([app.python, "-m", "synapse.app.homeserver", "-c", "homeserver.yaml", "--generate-keys"])
    app.run([app.python, "day.py", "create"])


def command(app):
    return [app.python, "day.py", MESSAGES]
