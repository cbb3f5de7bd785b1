"""Finds the token of a server, as the command line does."""

import os
from urllib.parse import urlsplit


def find(base_url: str) -> str:
    """The token in $AQUEDUCT_TOKEN, in the file $AQUEDUCT_TOKEN_FILE names, or, for a server on
    this machine, in its state folder; "" where there is none. A server elsewhere is not shown the
    token of this machine's."""
    token = os.environ.get("AQUEDUCT_TOKEN", "").strip()
    if token:
        return token
    path = os.environ.get("AQUEDUCT_TOKEN_FILE")
    if path:
        return _read(path)
    if urlsplit(base_url).hostname in ("127.0.0.1", "localhost", "::1"):
        path = os.path.join(_state(), "token")
        if os.access(path, os.R_OK):
            return _read(path)
    return ""


def _state() -> str:
    """The folder where "aqueduct serve" keeps its state when it is told no other."""
    given = os.environ.get("AQUEDUCT_STATE") or os.environ.get("STATE_DIRECTORY", "").split(":")[0]
    if given:
        return given
    system = "/var/lib/aqueduct"
    if os.access(system if os.path.exists(system) else os.path.dirname(system), os.W_OK | os.X_OK):
        return system
    base = os.environ.get("XDG_STATE_HOME", "")
    return os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.local/state"), "aqueduct")


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read().strip()
