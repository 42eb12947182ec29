"""Web applications with workers: Django and Flask under gunicorn, the latter also with a preloaded connection, under uwsgi, and with visitors."""

import os
import signal
import sys
import time

NAME = os.environ.get("SETUP_NAME") or sys.argv[1]
# A connection from before the fork stays open in the parent and in the children.
KEPT = {"gunicorn_preload", "uwsgi"}


def flask():
    """A connection for each request."""
    import sqlite3

    from flask import Flask

    site = Flask(__name__)
    before = sqlite3.connect("app.db", timeout=20, isolation_level=None)
    before.execute("PRAGMA journal_mode=WAL")
    before.execute("CREATE TABLE IF NOT EXISTS entry(id INTEGER PRIMARY KEY, text TEXT)")
    before.execute("SELECT count(*) FROM entry").fetchone()
    if NAME not in KEPT:
        before.close()

    def connect():
        return sqlite3.connect("app.db", timeout=20, isolation_level=None)

    @site.post("/store")
    def store():
        db = connect()
        db.execute("INSERT INTO entry(text) VALUES (hex(randomblob(50)))")
        db.close()
        return "stored"

    @site.get("/last")
    def last():
        db = connect()
        row = db.execute("SELECT max(id) FROM entry").fetchone()
        db.close()
        return str(row[0])

    return site


def django():
    """Django's defaults, or with CONN_MAX_AGE = None."""
    import django
    from django.conf import settings
    from django.core.wsgi import get_wsgi_application
    from django.db import connection, models
    from django.http import HttpResponse
    from django.urls import path

    settings.configure(
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": os.path.abspath("app.db"),
                "CONN_MAX_AGE": None if NAME == "django_persistent" else 0,
                "OPTIONS": {"timeout": 20},
            }
        },
        ROOT_URLCONF=__name__,
        ALLOWED_HOSTS=["*"],
        SECRET_KEY="of a benchmark",
        USE_TZ=True,
    )
    django.setup()

    class Entry(models.Model):
        text = models.CharField(max_length=100)

        class Meta:
            app_label = "web"
            db_table = "entry"

    def store(_request):
        Entry.objects.create(text="x" * 90)
        return HttpResponse("stored")

    def last(_request):
        return HttpResponse(str(Entry.objects.order_by("-id").first()))

    global urlpatterns
    urlpatterns = [path("store", store), path("last", last)]
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS entry(id INTEGER PRIMARY KEY AUTOINCREMENT, text varchar(100))")
    connection.close()
    return get_wsgi_application()


def serve(together):
    application = "web:" + ("django()" if NAME.startswith("django") else "flask()")
    if NAME == "uwsgi":
        run = "import pyuwsgi, sys; pyuwsgi.run(sys.argv[1:])"
        words = ["--master", "--processes", "4", "--http-socket", "http.sock", "--die-on-term", "--module", application]
        return together.start("-c", run, *words)
    # Litestream is for applications of one process.
    workers = ["-w", "1", "--threads", "4"] if NAME == "litestream" else ["-w", "4"]
    preload = ["--preload"] if NAME == "gunicorn_preload" else []
    words = ["-m", "gunicorn", *workers, "--bind", "unix:http.sock", "--chdir", os.getcwd(), *preload]
    return together.start(*words, application)


def main():
    import together

    os.environ["SETUP_NAME"] = NAME
    server, replica = serve(together), None
    try:
        together.wait_for("/last")
        load = together.Load()
        turns = [together.requests] * together.CLIENTS
        if NAME == "cron":
            turns.append((lambda _number: together.shell("INSERT INTO entry(text) VALUES ('cron')") == "" and 1, 0.5))
        if NAME == "backup":
            turns.append((lambda number: together.shell(f".backup copy{number % 3}.db") == "x" or 0, 1.0))
        if NAME == "litestream":
            replica = together.start("replicate", "app.db", "file://" + os.path.abspath("replica"), program="litestream", plain=True)
        load.run(*turns)
        if replica:
            # It looks at the log once a second, and once more when it ends.
            time.sleep(2)
            together.stop(replica, signal.SIGINT)
    finally:
        together.stop(server)
    if replica:
        together.visit("litestream", "restore", "-o", "restored.db", "file://" + os.path.abspath("replica"))
        found = int(together.as_it_is(together.LOOK, "restored.db", "SELECT count(*) FROM entry").split()[0])
        load.errors["a row that the replica does not have"] += max(0, load.stored - found)
    load.tell("entry")


if __name__ == "__main__":
    main()
