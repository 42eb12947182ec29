"""SQLAlchemy and peewee: an order and its two items, as their ORMs write them."""

import random

import protocol


class Orders(protocol.Workload):
    """The same objects for both."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.random = random.Random(1)

    def order(self):
        return f"{self.random.getrandbits(40):x}@example.org"

    def items(self):
        return [(f"article {self.random.randrange(900)}", self.random.randrange(1, 9)) for _ in range(2)]


class SqlAlchemy(Orders):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        import sqlalchemy
        from sqlalchemy import ForeignKey, event, orm

        class Base(orm.DeclarativeBase):
            pass

        class Order(Base):
            __tablename__ = "orders"
            id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
            customer: orm.Mapped[str] = orm.mapped_column(index=True)
            items: orm.Mapped[list["Item"]] = orm.relationship()

        class Item(Base):
            __tablename__ = "items"
            id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
            order_id: orm.Mapped[int] = orm.mapped_column(ForeignKey("orders.id"), index=True)
            article: orm.Mapped[str]
            pieces: orm.Mapped[int]

        self.Order, self.Item = Order, Item
        self.engine = sqlalchemy.create_engine(f"sqlite:///{self.file}")

        @event.listens_for(self.engine, "connect")
        def settings(connection, _record):
            for pragma in self.pragmas:
                connection.execute(pragma)

        Base.metadata.create_all(self.engine)
        self.session = orm.Session(self.engine)

    def commit(self, number):
        order = self.Order(customer=self.order())
        order.items = [self.Item(article=article, pieces=pieces) for article, pieces in self.items()]
        self.session.add(order)
        self.session.commit()

    def ask(self, question):
        from sqlalchemy import text

        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text(question))]

    def close(self):
        self.session.close()
        self.engine.dispose()


class Peewee(Orders):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        import peewee

        journal, synchronous = (pragma.removeprefix("PRAGMA ").split(" = ") for pragma in self.pragmas)
        self.db = peewee.SqliteDatabase(self.file, pragmas=[journal, synchronous])

        class Table(peewee.Model):
            class Meta:
                database = self.db

        class Order(Table):
            customer = peewee.CharField(index=True)

        class Item(Table):
            order = peewee.ForeignKeyField(Order, backref="items")
            article = peewee.CharField()
            pieces = peewee.IntegerField()

        self.Order, self.Item = Order, Item
        self.db.connect()
        self.db.create_tables([Order, Item])

    def commit(self, number):
        with self.db.atomic():
            order = self.Order.create(customer=self.order())
            for article, pieces in self.items():
                self.Item.create(order=order, article=article, pieces=pieces)

    def ask(self, question):
        return self.db.execute_sql(question).fetchall()

    def close(self):
        self.db.close()


PATTERNS = {"sqlalchemy": SqlAlchemy, "peewee": Peewee}

if __name__ == "__main__":
    protocol.main(PATTERNS)
