"""Prefect: flows and their tasks, whose states its API keeps in SQLite. Each flow run starts a server of its own."""

ABOUT = "Prefect: 6 runs of a flow with 10 tasks"
REQUIREMENTS = ["prefect==3.9.1"]
PYTHON = []
DATABASE = "home/prefect.db"
COUNT = "SELECT count(*) FROM task_run_state"
RUNS = 6

SCRIPT = '''
import sys

from prefect import flow, task


@task
def double(number: int) -> int:
    return 2 * number


@flow(log_prints=False)
def doubles(tasks: int) -> int:
    return sum(double(number) for number in range(tasks))


for _ in range(int(sys.argv[1])):
    assert doubles(10) == 90
'''
SETTINGS = ("PREFECT_SERVER_ANALYTICS_ENABLED=false", "DO_NOT_TRACK=1", "PREFECT_LOGGING_LEVEL=ERROR")


def prepare(app):
    (app.folder / "flows.py").write_text(SCRIPT)
    app.run(flows(app, 1))


def flows(app, runs):
    return ["env", f"PREFECT_HOME={app.folder / 'home'}", *SETTINGS, app.python, "flows.py", runs]


def command(app):
    return flows(app, RUNS)
