"""Queues and studies whose workers are processes: huey with two, Optuna with four."""

import os
import subprocess
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


def huey(together):
    os.environ["SETUP_NAME"] = NAME
    import jobs

    # The producer is a part of the application.
    if "SETUP_PRELOAD" in os.environ and "LD_PRELOAD" not in os.environ:
        os.environ["LD_PRELOAD"] = os.environ["SETUP_PRELOAD"]
        os.execv(sys.executable, [sys.executable, *sys.argv])
    consumer = together.start("-m", "huey.bin.huey_consumer", "jobs.queue", "-w", "2", "-k", "process", "-d", "0.05")
    load = together.Load()

    def turn(number):
        # As the consumer names it.
        answer = jobs.double(number)(blocking=True, timeout=30)
        if answer != 2 * number:
            raise RuntimeError(f"{answer} for {number}")
        return 0

    try:
        turn(1)
        load.end = time.monotonic() + together.SECONDS
        load.run(turn, turn)
    finally:
        together.stop(consumer)
    load.tell("task")


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
    outputs = [open(f"worker{number}", "w+") for number in range(4)]
    begun = time.monotonic()
    words = ["-c", STUDY, str(together.SECONDS)]
    workers = [together.start(*words, stdout=output, stderr=subprocess.PIPE, text=True) for output in outputs]
    for worker, output in zip(workers, outputs):
        complaint = worker.communicate()[1]
        output.seek(0)
        trials = [float(line) for line in output]
        load.took += trials
        load.stored += len(trials)
        if worker.returncode:
            telling = [line for line in complaint.splitlines() if "Error" in line] or ["no reason given"]
            load.errors[telling[-1][:200]] += 1
    load.seconds = time.monotonic() - begun
    load.tell("trials WHERE state = 'COMPLETE'")


if __name__ == "__main__":
    import together

    {"huey": huey, "optuna": optuna}[NAME](together)
