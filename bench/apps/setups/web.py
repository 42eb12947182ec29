"""Web applications with four workers: Django and Flask under gunicorn, the latter also with a preloaded connection and with cron."""

import os
import sys

NAME = os.environ.get("SETUP_NAME") or sys.argv[1]


def flask():
    """A connection for each request; with `--preload` one that is opened before the workers are forked, too."""
    import sqlite3

    from flask import Flask

    site = Flask(__name__)
    before = sqlite3.connect("app.db", timeout=20, isolation_level=None)
    before.execute("PRAGMA journal_mode=WAL")
    before.execute("CREATE TABLE IF NOT EXISTS entry(id INTEGER PRIMARY KEY, text TEXT)")
    before.execute("SELECT count(*) FROM entry").fetchone()
    if NAME != "gunicorn_preload":
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


def main():
    import together

    os.environ["SETUP_NAME"] = NAME
    preload = ["--preload"] if NAME == "gunicorn_preload" else []
    words = ["-m", "gunicorn", "-w", "4", "--bind", "unix:http.sock", "--chdir", os.getcwd(), *preload]
    server = together.start(*words, "web:" + ("django()" if NAME.startswith("django") else "flask()"))
    try:
        together.wait_for("/last")
        load = together.Load()
        turns = [together.requests] * together.CLIENTS
        if NAME == "cron":
            turns.append((lambda _number: together.shell("INSERT INTO entry(text) VALUES ('cron')") == "" and 1, 0.5))
        if NAME == "backup":
            turns.append((lambda number: together.shell(f".backup copy{number % 3}.db") == "x" or 0, 1.0))
        load.run(*turns)
    finally:
        together.stop(server)
    load.tell("entry")


if __name__ == "__main__":
    main()
