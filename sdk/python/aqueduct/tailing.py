"""Reads a chat's events to their end, over as many connections as it takes.

Every event has its position in the chat's log as `id:`. A connection that breaks is made
again from the position we have: first the same POST once more (the server knows its runId and
starts nothing twice), later the Run's events, and after a question the chat's.
"""

import asyncio
import json
import time
from contextlib import aclosing
from typing import Any, AsyncIterator, Dict, Mapping, Optional, Tuple
from urllib.parse import quote

from . import http1, sse
from .errors import ChatError
from .events import Reader

#: The server sends a comment every 15 s; a longer silence is a dead connection.
SILENCE = 45.0
#: How long to try without hearing anything new.
PATIENCE = 60.0
#: Statuses that pass.
PASSING = (429, 502, 503, 504)


class Broken(Exception):
    """The connection ended before the Run did."""


class Tail:
    """One chat request and all that comes of it."""

    def __init__(self, base: str, headers: Mapping[str, str], query: str, body: dict, reader: Reader, follow: bool):
        self._base, self._headers, self._query, self._follow = base, dict(headers), query, follow
        self._thread, self._run = body["threadId"], body["runId"]
        self._body = json.dumps(body).encode()
        self._reader, self.position, self._heard = reader, 0, time.monotonic()

    async def events(self) -> AsyncIterator[dict]:
        """The events, each once, until the Run, or with follow the Turn, is over."""
        pause = 0.2
        while not self._over():
            before = self.position
            try:
                async with aclosing(self._once()) as events:
                    async for event in events:
                        yield event
                        if self._over():
                            return
                if self._over():
                    return
            except (OSError, EOFError, http1.Malformed, TimeoutError, Broken) as why:
                if time.monotonic() - self._heard > PATIENCE:
                    raise ConnectionError(f"the chat's stream broke and could not be taken up again: {why}") from why
            pause = 0.2 if self.position > before else min(5.0, pause * 2)
            await asyncio.sleep(pause)

    def _over(self) -> bool:
        return self._reader.outcome == "over" or self._reader.outcome == "interrupt" and not self._follow

    def _target(self) -> Tuple[str, str, Optional[bytes]]:
        """Where to read on."""
        if self.position == 0:
            return "POST", "/api/agui/chat" + self._query, self._body
        if self._reader.outcome == "interrupt":
            return "GET", f"/api/threads/{quote(self._thread, safe='')}/events", None
        return "GET", f"/api/runs/{quote(self._reader.run_id or self._run, safe='')}/events", None

    async def _once(self) -> AsyncIterator[dict]:
        method, path, body = self._target()
        headers = {**self._headers, "Accept": "text/event-stream"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self.position:
            headers["Last-Event-ID"] = str(self.position)
        async with http1.request(method, self._base + path, headers, body) as answer:
            if answer.status in PASSING:
                raise Broken(f"HTTP {answer.status}")
            if answer.status == 204:  # the Run is over and we have all of it
                self._reader.outcome = self._reader.outcome or "over"
                return
            if answer.status != 200:
                raise await problem(answer)
            async with aclosing(self._parse(answer)) as events:
                async for event in events:
                    yield event

    async def _parse(self, answer: http1.Answer) -> AsyncIterator[dict]:
        parser = sse.Parser()
        chunks = answer.chunks()
        while True:
            async with asyncio.timeout(SILENCE):
                raw = await anext(chunks, b"")
            if not raw:
                return
            self._heard = time.monotonic()
            for got in parser.feed(raw):
                position = int(got.id) if got.id.isdigit() else 0
                if position and position <= self.position:
                    continue  # heard before the connection broke
                self.position = position or self.position
                event: Dict[str, Any] = json.loads(got.data)
                yield event


async def problem(answer: http1.Answer) -> ChatError:
    """A refusal, from its application/problem+json."""
    try:
        body = json.loads(await answer.read())
    except (ValueError, EOFError, OSError):
        body = {}
    body = body if isinstance(body, dict) else {}
    code = str(body.get("code") or f"http_{answer.status}")
    return ChatError(code, str(body.get("detail") or body.get("title") or f"HTTP {answer.status}"), answer.status, body)
