"""Django with its defaults: the ORM, a rollback journal, a transaction for each order. The app is that of `examples/django`.
"""

ABOUT = "Django: orders through the ORM, its default settings"
REQUIREMENTS = ["django==5.2.1"]
PYTHON = []
DATABASE = "shop.db"
COUNT = "SELECT count(*) FROM shop_order"

SCRIPT = '''
import sys

import django
from django.conf import settings

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db"}},
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions"],
    SECRET_KEY="not a secret",
    SESSION_ENGINE="django.contrib.sessions.backends.db",
)
django.setup()

from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.core.management import call_command
from django.db import connection, models, transaction


class Order(models.Model):
    customer = models.ForeignKey(User, on_delete=models.CASCADE)
    pieces = models.IntegerField()

    class Meta:
        app_label = "shop"
        db_table = "shop_order"


if sys.argv[1] == "create":
    call_command("migrate", verbosity=0)
    with connection.schema_editor() as editor:
        editor.create_model(Order)
    User.objects.create_user("ada")
    sys.exit()
ada = User.objects.get(username="ada")
for number in range(int(sys.argv[1])):
    session = SessionStore()
    session["cart"] = list(range(number % 7))
    session.save()
    with transaction.atomic():
        Order.objects.create(customer=ada, pieces=number % 9)
'''
ORDERS = 500


def prepare(app):
    (app.folder / "shop.py").write_text(SCRIPT)
    app.run([app.python, "shop.py", "create"])


def command(app):
    return [app.python, "shop.py", ORDERS]
