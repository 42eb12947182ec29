"""Real applications, unmodified, on litefoot: `cargo xtask apps [NAME…]`, which builds litefoot before. `common.py` says what is done.

    LITEFOOT_APPS_CACHE   where they are installed; ~/.cache/litefoot-apps
    LITEFOOT_APPS_DIR     a directory on the device to be measured; the present one
    LITEFOOT_APPS_ROUNDS  runs of each side; 5
"""

import sys

import common
import django_shop
import home_assistant
import mlflow_server
import subversion

APPS = {
    "subversion": subversion,
    "home-assistant": home_assistant,
    "django": django_shop,
    "mlflow": mlflow_server,
}

if __name__ == "__main__":
    names = sys.argv[1:] or list(APPS)
    unknown = [name for name in names if name not in APPS]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(APPS)}")
    sys.exit(common.main({name: APPS[name] for name in names}))
