"""Orders with SQLAlchemy: the engine for SQL, the ORM for objects, both on litefoot by the engine's URL."""

import sqlite3
from contextlib import closing

import litefoot
from sqlalchemy import ForeignKey, create_engine, func, select, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

# Once in a process, and any connection can name the VFS.
with closing(sqlite3.connect(":memory:")) as any_connection:
    litefoot.load(any_connection)
engine = create_engine("sqlite:///file:orders.db?vfs=litefoot&uri=true")


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]
    lines: Mapped[list["Line"]] = relationship(back_populates="order")


class Line(Base):
    __tablename__ = "line"
    id: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[int] = mapped_column(ForeignKey("orders.id"))
    article: Mapped[str]
    pieces: Mapped[int]
    order: Mapped[Order] = relationship(back_populates="lines")


with engine.connect() as connection:
    connection.exec_driver_sql("PRAGMA journal_mode = WAL")
Base.metadata.create_all(engine)

for number in range(200):
    with Session(engine) as session, session.begin():
        lines = [Line(article="screw", pieces=100), Line(article="bracket", pieces=number % 5 + 1)]
        session.add(Order(customer=f"customer {number % 20}", lines=lines))

rename = text("UPDATE orders SET customer = :new WHERE customer = :old")
with engine.begin() as connection:
    connection.execute(rename, {"new": "Ada", "old": "customer 7"})

with Session(engine) as session:
    pieces = session.scalar(select(func.sum(Line.pieces)).join(Line.order).where(Order.customer == "Ada"))
    rows = session.scalar(select(func.count()).select_from(Order))
    commits = session.scalar(text("SELECT sum(value) FROM litefoot_stats WHERE name LIKE 'commits_%'"))
print(f"Ada ordered {pieces} pieces")
print(f"{rows} rows, {commits} commits by litefoot")
engine.dispose()
