"""Finds the token of a server, as the command line does."""

import os
from urllib.parse import urlsplit

#: Where "aqueduct serve" puts the token that it makes, seen from its working directory.
DEFAULT_FILE = os.path.join("data", "token")


def find(base_url: str) -> str:
    """The token in $AQUEDUCT_TOKEN, in the file $AQUEDUCT_TOKEN_FILE names, or, for a server on
    this machine, in data/token; "" where there is none. A server elsewhere is not shown the
    token of this machine's."""
    token = os.environ.get("AQUEDUCT_TOKEN", "").strip()
    if token:
        return token
    path = os.environ.get("AQUEDUCT_TOKEN_FILE")
    if path:
        return _read(path)
    if urlsplit(base_url).hostname in ("127.0.0.1", "localhost", "::1") and os.path.exists(DEFAULT_FILE):
        return _read(DEFAULT_FILE)
    return ""


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read().strip()
