"""What clients of a server share, in the environment of an application: `prepare` copies this beside them.

The server is started, asked over HTTP, and ended.
"""

import contextlib
import http.client
import json
import signal
import subprocess
import sys
import time


def ask(server, method, path, body=None, headers=()):
    """The answer of a server, a connection of `http.client`, to a request in JSON."""
    with contextlib.closing(server):
        content = json.dumps(body) if body is not None else None
        server.request(method, path, content, {"Content-Type": "application/json", **dict(headers)})
        answer = server.getresponse()
        said = answer.read()
    if answer.status != 200:
        raise SystemExit(f"{path}: {answer.status} {said.decode(errors='replace')}")
    return json.loads(said)


@contextlib.contextmanager
def serving(module, *words, is_up, log):
    """A server of Python's, which is up once `is_up` raises no error of a connection; where it does not start, `log` says why."""
    server = subprocess.Popen([sys.executable, "-m", module, *words], stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 60
        while True:
            try:
                is_up()
                break
            except (OSError, http.client.HTTPException):
                if server.poll() is not None or time.monotonic() > end:
                    raise SystemExit(f"{module} does not start: see {log}")
                time.sleep(0.1)
        yield
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
