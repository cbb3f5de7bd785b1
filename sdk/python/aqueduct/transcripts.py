"""`run.transcript()`: the thread's messages, page by page (docs/api.md, "Transcript")."""

import asyncio
import json
from typing import Any, Dict, List, NamedTuple, Optional
from urllib.parse import quote, urlencode

from . import http1
from .errors import AqueductError


class Page(NamedTuple):
    """Messages, the newest last. `before` leads to the page before it; None at the beginning."""

    messages: List[dict]
    before: Optional[str]


async def read(base_url: str, token: str, session_id: str, limit: Optional[int], before: Optional[str], format: Optional[str]) -> Page:
    """Reads a page."""
    query: Dict[str, Any] = {"limit": limit, "before": before, "format": format}
    path = f"/v1/sessions/{quote(session_id, safe='')}/messages?" + urlencode({k: v for k, v in query.items() if v is not None})
    try:
        async with http1.request("GET", base_url.rstrip("/") + path, {"Authorization": "Bearer " + token}) as answer:
            raw = await answer.read()
    except (OSError, EOFError, http1.Malformed, TimeoutError):
        raise AqueductError("unreachable", "Aqueduct could not be reached.") from None
    try:
        body = json.loads(raw)
    except ValueError:  # a gateway's own page
        body = {}
    if answer.status != 200 or not isinstance(body, dict) or "messages" not in body:
        body = body if isinstance(body, dict) else {}
        raise AqueductError(str(body.get("code", f"http_{answer.status}")), str(body.get("detail") or body.get("title", f"Aqueduct answered HTTP {answer.status}.")))
    return Page(body["messages"], body.get("before") if body.get("has_more") else None)


def blocking(*args: Any) -> Page:
    """read() for functions that may block."""
    return asyncio.run(read(*args))
