"""Queues and studies whose workers are processes: huey and Celery with two, Optuna with four."""

import os
import sys
import time

NAME = os.environ.get("SETUP_NAME") or sys.argv[1]

if NAME == "huey":
    from huey import SqliteHuey

    # Results are what the producer waits for.
    queue = SqliteHuey(filename="app.db", results=True, timeout=20)

    @queue.task()
    def double(number):
        return 2 * number

if NAME == "celery":
    from celery import Celery
    from kombu.transport import sqlalchemy

    # It looks for tasks once a second otherwise.
    sqlalchemy.Transport.polling_interval = 0.05
    queue = Celery("jobs", broker="sqla+sqlite:///broker.db", backend="db+sqlite:///app.db")
    queue.conf.broker_connection_retry_on_startup = True

    @queue.task
    def double(number):
        return 2 * number


def produce(together, answer, stored, *worker):
    """Tasks whose results the producer waits for. It is a part of the application."""
    together.preloaded()
    worker = together.start("-m", *worker)
    load = together.Load()

    def turn(number):
        got = answer(number)
        if got != 2 * number:
            raise RuntimeError(f"{got} for {number}")
        return stored

    try:
        turn(1)
        load.end = time.monotonic() + together.SECONDS
        load.run(turn, turn)
    finally:
        together.stop(worker)
    return load


def huey(together):
    # As the consumer names it.
    import jobs

    worker = ("huey.bin.huey_consumer", "jobs.queue", "-w", "2", "-k", "process", "-d", "0.05")
    load = produce(together, lambda number: jobs.double(number)(blocking=True, timeout=30), 0, *worker)
    load.tell("task")


def celery(together):
    import jobs

    worker = ("celery", "-A", "jobs:queue", "worker", "-c", "2", "--loglevel", "WARNING")
    load = produce(together, lambda number: jobs.double.delay(number).get(timeout=30, interval=0.02), 1, *worker)
    load.tell("celery_taskmeta WHERE status = 'SUCCESS'")


STUDY = """
import optuna, sys, time
optuna.logging.set_verbosity(optuna.logging.ERROR)
study = optuna.create_study(study_name="study", storage="sqlite:///app.db", load_if_exists=True)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    begun = time.monotonic()
    study.optimize(lambda trial: (trial.suggest_float("x", -9, 9) - 2) ** 2, n_trials=1)
    print(time.monotonic() - begun, flush=True)
"""


def optuna(together):
    load = together.Load()
    together.start("-c", STUDY, "0").wait()
    load.gather(*[("-c", STUDY, str(together.SECONDS))] * 4)
    load.tell("trials WHERE state = 'COMPLETE'")


if __name__ == "__main__":
    os.environ["SETUP_NAME"] = NAME
    import together

    {"huey": huey, "celery": celery, "optuna": optuna}[NAME](together)
