"""MLflow: runs with parameters and metrics, logged by its client into its SQLite store."""

ABOUT = "MLflow: runs, parameters and metrics"
REQUIREMENTS = ["mlflow-skinny==3.1.0", "sqlalchemy==2.0.39", "alembic", "pandas", "graphene", "flask"]
PYTHON = []
DATABASE = "mlflow.db"
COUNT = "SELECT count(*) FROM metrics"

SCRIPT = '''
import sys

import mlflow

mlflow.set_tracking_uri("sqlite:///mlflow.db")
mlflow.set_experiment("reach")
for number in range(int(sys.argv[1])):
    with mlflow.start_run():
        mlflow.log_params({"rate": 0.1 * number, "depth": number})
        for step in range(10):
            mlflow.log_metric("loss", 1 / (step + 1 + number), step=step)
'''
RUNS = 15


def prepare(app):
    (app.folder / "runs.py").write_text(SCRIPT)
    app.run([app.python, "runs.py", 1])


def command(app):
    return [app.python, "runs.py", RUNS]
