"""A Django project in one file. What concerns litefoot is `load` and DATABASES, both as in any settings.py."""

import sqlite3
from contextlib import closing

import django
import litefoot
from django.conf import settings

# Once in a process, and any connection can name the VFS.
with closing(sqlite3.connect(":memory:")) as any_connection:
    litefoot.load(any_connection)

settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": "file:orders.db?vfs=litefoot",
            "OPTIONS": {"init_command": "PRAGMA journal_mode = WAL", "transaction_mode": "IMMEDIATE"},
        }
    },
    USE_TZ=True,
)
django.setup()

from django.db import connection, models, transaction  # noqa: E402
from django.db.models import F, Sum  # noqa: E402


class Order(models.Model):
    customer = models.CharField(max_length=40, db_index=True)
    pieces = models.PositiveIntegerField()
    paid = models.BooleanField(default=False)

    class Meta:
        app_label = "shop"


# A project with an app of its own runs `manage.py migrate` instead.
if Order._meta.db_table not in connection.introspection.table_names():
    with connection.schema_editor() as editor:
        editor.create_model(Order)

for number in range(200):
    Order.objects.create(customer=f"customer {number % 20}", pieces=number % 5 + 1)
with transaction.atomic():
    Order.objects.filter(customer="customer 7").update(customer="Ada", pieces=F("pieces") + 1)
    Order.objects.filter(customer="Ada").update(paid=True)

print("Ada paid for", Order.objects.filter(paid=True).aggregate(pieces=Sum("pieces"))["pieces"], "pieces")
with connection.cursor() as cursor:
    cursor.execute("SELECT sum(value) FROM litefoot_stats WHERE name LIKE 'commits_%%'", [])
    commits = cursor.fetchone()[0]
print(f"{Order.objects.count()} rows, {commits} commits by litefoot")
connection.close()
