"""Optuna: two processes search on one study, whose trials are in SQLite."""

ABOUT = "Optuna: two processes, 40 trials each of one study"
REQUIREMENTS = ["optuna==4.3.0", "sqlalchemy==2.0.39"]
PYTHON = []
DATABASE = "study.db"
COUNT = "SELECT count(*) FROM trial_values"
TRIALS = 40

SCRIPT = '''
import os, sys

import optuna


def measure(trial):
    x, y = trial.suggest_float("x", -10, 10), trial.suggest_int("y", 0, 9)
    for step in range(3):
        trial.report(x * x / (step + 1), step)
    return x * x + y


optuna.logging.set_verbosity(optuna.logging.WARNING)
storage = optuna.storages.RDBStorage("sqlite:///study.db", engine_kwargs={"connect_args": {"timeout": 60}})
study = optuna.create_study(storage=storage, study_name="reach", load_if_exists=True, sampler=optuna.samplers.RandomSampler(1))
other = os.fork() if sys.argv[1] != "0" else 1
if not other:
    os.execv(sys.executable, [sys.executable, "search.py", "0", sys.argv[1]])
study.optimize(measure, n_trials=int(sys.argv[-1]))
if sys.argv[1] != "0" and os.waitpid(other, 0)[1]:
    raise SystemExit("the other process has failed")
'''


def prepare(app):
    (app.folder / "search.py").write_text(SCRIPT)
    app.run([app.python, "search.py", 0, 1])


def command(app):
    return [app.python, "search.py", TRIALS]
