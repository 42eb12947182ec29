"""Real applications, unmodified, on litefoot: `cargo xtask apps [NAME…]`, which builds litefoot before. `common.py` says what is done.

    LITEFOOT_APPS_CACHE   where they are installed; ~/.cache/litefoot-apps
    LITEFOOT_APPS_DIR     a directory on the device to be measured; the present one
    LITEFOOT_APPS_ROUNDS  runs of each side; 5
"""

import sys

import common
import django_shop
import home_assistant
import kine_store
import mediawiki
import mlflow_server
import moonraker_api
import optuna_study
import powerdns
import prefect_flows
import subversion
import synapse
import zigpy_network

APPS = {
    "subversion": subversion,
    "home-assistant": home_assistant,
    "django": django_shop,
    "mlflow": mlflow_server,
    "kine": kine_store,
    "mediawiki": mediawiki,
    "moonraker": moonraker_api,
    "optuna": optuna_study,
    "powerdns": powerdns,
    "prefect": prefect_flows,
    "synapse": synapse,
    "zigpy": zigpy_network,
}

if __name__ == "__main__":
    names = sys.argv[1:] or list(APPS)
    unknown = [name for name in names if name not in APPS]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(APPS)}")
    sys.exit(common.main({name: APPS[name] for name in names}))
