"""Services that come as programs, and what works beside them: mlflow, Trac with trac-admin, Datasette with cron, a site in PHP."""

import json
import os
import signal
import sys

import together

SITE = """<?php
$db = new PDO("sqlite:app.db", null, null, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION, PDO::ATTR_TIMEOUT => 20]);
if ($_SERVER["REQUEST_URI"] == "/store") {
    $db->prepare("INSERT INTO entry(text) VALUES (?)")->execute([bin2hex(random_bytes(50))]);
    echo "stored";
} else {
    echo $db->query("SELECT max(id) FROM entry")->fetchColumn();
}
"""


def create():
    together.shell("CREATE TABLE entry(id INTEGER PRIMARY KEY, text TEXT)")


def mlflow():
    """The tracking server with four workers; clients begin runs and list them."""
    store = "sqlite:///app.db"
    together.start("-m", "mlflow", "db", "upgrade", store).wait()
    words = ["--backend-store-uri", store, "--artifacts-destination", os.path.abspath("artifacts"), "--workers", "4"]
    server = together.start("-m", "mlflow", "server", *words, "--uvicorn-opts", "--uds http.sock")
    headers = {"Content-Type": "application/json"}

    def turn(number):
        call, body = ("search", {"experiment_ids": ["0"], "max_results": 1}) if number % 2 else ("create", {"experiment_id": "0"})
        together.ask("POST", f"/api/2.0/mlflow/runs/{call}", body=json.dumps(body), headers=headers)
        return 1 - number % 2

    try:
        together.wait_for("/health")
        for _ in range(12):
            # A worker's first answer takes seconds.
            turn(1)
        load = together.Load()
        load.run(*[turn] * together.CLIENTS)
    finally:
        together.stop(server, all_of_it=True)
    load.tell("runs")


def trac():
    """Under gunicorn with four workers; clients write tickets and read them, and trac-admin adds components."""
    os.environ["TRAC_ENV"] = place = os.path.abspath("project")
    database = os.path.join(place, "db", "trac.db")
    admin = (sys.executable, "-m", "trac.admin.console", place)
    together.start(*admin[1:], "initenv", "Project", "sqlite:db/trac.db").wait()
    together.visit(*admin, "permission", "add", "anonymous", "TICKET_CREATE")
    words = ["-m", "gunicorn", "-w", "4", "--bind", "unix:http.sock"]
    server = together.start(*words, "trac.web.main:dispatch_request")
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Cookie": "trac_form_token=of_a_benchmark"}
    ticket = "__FORM_TOKEN=of_a_benchmark&submit=Create&field_summary=Something&field_description=Else&field_type=task"

    def turn(number):
        if number % 2:
            together.ask("GET", "/report/1")
            return 0
        text = together.ask("POST", "/newticket", body=ticket, headers=headers)
        if "Create New Ticket" in text:
            raise RuntimeError("no ticket")
        return 1

    def component(number):
        together.visit(*admin, "component", "add", f"part{number}")
        return 0

    try:
        together.wait_for("/report/1")
        load = together.Load()
        load.run(*[turn] * together.CLIENTS, (component, 0.5))
    finally:
        together.stop(server)
    load.tell("ticket", database)


def datasette():
    """Clients read what a cron job inserts."""
    create()
    server = together.start("-m", "datasette", "serve", "app.db", "--uds", "http.sock")

    def read(_number):
        together.ask("GET", "/app/entry.json?_size=5&_sort_desc=id")
        return 0

    def insert(_number):
        together.shell("INSERT INTO entry(text) VALUES (hex(randomblob(50)))")
        return 1

    try:
        together.wait_for("/-/versions.json")
        load = together.Load()
        load.run(*[read] * together.CLIENTS, (insert, 0.2))
    finally:
        together.stop(server)
    load.tell("entry")


def php():
    """PHP's own server with four workers, a PDO for each request."""
    create()
    with open("site.php", "w") as site:
        site.write(SITE)
    port = together.free_port()
    os.environ["PHP_CLI_SERVER_WORKERS"] = "4"
    server = together.start("-S", f"localhost:{port}", "site.php", program="php")

    def turn(number):
        if number % 2:
            together.ask("GET", "/last", port)
            return 0
        if together.ask("POST", "/store", port) != "stored":
            raise RuntimeError("not stored")
        return 1

    try:
        together.wait_for("/last", port)
        load = together.Load()
        load.run(*[turn] * together.CLIENTS)
    finally:
        together.stop(server, signal.SIGINT, all_of_it=True)
    load.tell("entry")


if __name__ == "__main__":
    {"mlflow": mlflow, "trac": trac, "datasette": datasette, "php": php}[together.NAME]()
