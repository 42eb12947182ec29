"""Django: a request stores an order and its visitor's session, each in a transaction, as `ATOMIC_REQUESTS = False` has it.

An order is AUTOINCREMENT and RETURNING, with two indexes; the session is an UPDATE by a text key.
"""

import random

import protocol

SESSIONS = 50


class Kept(protocol.Workload):
    """One connection, as with CONN_MAX_AGE = None."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        import django
        from django.conf import settings

        settings.configure(
            DATABASES={
                "default": {
                    "ENGINE": "django.db.backends.sqlite3",
                    "NAME": self.file,
                    "OPTIONS": {"init_command": "; ".join(self.pragmas)},
                }
            },
            INSTALLED_APPS=["django.contrib.sessions"],
            SECRET_KEY="of a benchmark",
            USE_TZ=True,
        )
        django.setup()
        from datetime import datetime, timedelta, timezone

        from django.contrib.sessions.models import Session
        from django.db import connection, models

        class Order(models.Model):
            customer = models.CharField(max_length=40, db_index=True)
            number = models.CharField(max_length=20, unique=True)
            pieces = models.PositiveIntegerField()
            paid = models.BooleanField(default=False)
            at = models.DateTimeField()

            class Meta:
                app_label = "shop"

        self.Order, self.Session, self.connection = Order, Session, connection
        self.time = lambda number: datetime(2026, 3, 1, tzinfo=timezone.utc) + timedelta(seconds=number)
        self.random = random.Random(1)
        with connection.schema_editor() as editor:
            for model in (Session, Order):
                editor.create_model(model)
        self.sessions = []
        for number in range(SESSIONS):
            session = Session(session_key=self.word(32), session_data=self.word(200), expire_date=self.time(number))
            session.save(force_insert=True)
            self.sessions.append(session)

    def word(self, letters):
        return "".join(self.random.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=letters))

    def commit(self, number):
        if number % 2 == 0:
            self.Order.objects.create(
                customer=f"customer {self.random.randrange(200)}",
                number=self.word(12),
                pieces=self.random.randrange(1, 9),
                at=self.time(number),
            )
        else:
            session = self.random.choice(self.sessions)
            session.session_data, session.expire_date = self.word(200), self.time(number)
            session.save(force_update=True)
            self.end_request(number)

    def end_request(self, number):
        pass

    def ask(self, question):
        with self.connection.cursor() as cursor:
            # Django's parameters begin with %.
            cursor.execute(question.replace("%", "%%"), [])
            return cursor.fetchall()

    def close(self):
        self.connection.close()


class PerRequest(Kept):
    """As with CONN_MAX_AGE = 0, the default: two commits in a connection."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.connection.close()

    def end_request(self, number):
        self.sample(number // 2)
        self.connection.close()

    def figures(self):
        # A question would open a connection that no request has.
        return super().figures() if self.connection.connection else self.sampled.copy()


PATTERNS = {"django_kept": Kept, "django_per_request": PerRequest}

if __name__ == "__main__":
    protocol.main(PATTERNS)
