"""The way of one tool call, without I/O: what to send next, given what came back.

`POST /v1/tools/{name}:invoke`, then `POST /v1/tool_calls/{id}:wait` until it has ended.
The drivers in tools.py do the sending, with and without asyncio.
"""

from typing import Any, Generator, NamedTuple, Optional, Union
from urllib.parse import quote

from .errors import ToolFailed, ToolPending

#: How long one :wait may take; the server answers sooner when the call has ended.
WAIT = 20.0
#: How long a server may be unreachable, or say 502, 503, 504, before that is an error.
PATIENCE = 60.0
#: Statuses that say nothing about the call.
PASSING = (429, 502, 503, 504)


class Post(NamedTuple):
    """One request. What it gives back is a Reply, or None when the connection broke."""

    path: str
    body: dict
    timeout: float


class Sleep(NamedTuple):
    """A pause between two tries."""

    seconds: float


class Reply(NamedTuple):
    """What a request gave, and at what time by a steady clock."""

    status: int
    body: Any
    now: float


Step = Union[Post, Sleep]


def call(
    run_id: str, name: str, args: Any, key: str, timeout: Optional[float], wait: Optional[float], now: float, call_id: Optional[str] = None
) -> Generator[Step, Any, Any]:
    """The whole call: it returns the result, or raises."""
    body = {"run_id": run_id, "args": args, "idempotency_key": key}
    if call_id is not None:
        body["call_id"] = call_id
    if timeout is not None:
        body["timeout_ms"] = max(1, round(timeout * 1000))
    until = None if wait is None else now + wait
    reply = yield from retry(Post(f"/v1/tools/{quote(name, safe='')}:invoke", body, (timeout or WAIT) + 60), now)
    pause = 0.1
    while True:
        answer = outcome(reply)
        if answer.ended:
            return answer.result
        left = WAIT if until is None else min(WAIT, until - reply.now)
        if left <= 0:
            raise ToolPending(answer.id)
        before = reply.now
        path = f"/v1/tool_calls/{quote(answer.id, safe='')}:wait?timeout_ms={round(left * 1000)}"
        reply = yield from retry(Post(path, {}, left + 15), reply.now)
        if reply.now - before < min(pause, left) and not outcome(reply, answer.id).ended:
            yield Sleep(pause)  # a server that does not wait is not asked in a tight loop
            pause = min(2.0, pause * 2)
        reply = reply._replace(body=with_id(reply.body, answer.id))


def retry(post: Post, now: float) -> Generator[Step, Any, Reply]:
    """Sends until there is an answer. The key in the body keeps a repeat from counting twice."""
    pause, until = 0.2, now + PATIENCE
    while True:
        reply = yield post
        if reply.status and reply.status not in PASSING:
            return reply
        if reply.now + pause > until:
            raise ToolFailed("unreachable", "Aqueduct could not be reached, so what became of the tool call is not known.")
        yield Sleep(pause)
        pause = min(5.0, pause * 2)


class Outcome(NamedTuple):
    """What a reply says about the call."""

    ended: bool
    id: str
    result: Any = None


def outcome(reply: Reply, id: str = "") -> Outcome:
    """Reads a reply. Only "succeeded" gives a result; what failed is raised."""
    body = reply.body if isinstance(reply.body, dict) else {}
    status = str(body.get("status", "")).lower()
    id = str(body.get("tool_call_id") or id)
    if status == "succeeded" and reply.status < 300:
        return Outcome(True, id, body.get("result"))
    problem = body.get("error")
    if isinstance(problem, dict):
        raise ToolFailed(str(problem.get("code", "tool_failed")), str(problem.get("message", "The tool failed.")), id or None)
    if reply.status >= 300:
        detail = body.get("detail") or body.get("title") or f"Aqueduct answered HTTP {reply.status}."
        raise ToolFailed(str(body.get("code", "http_" + str(reply.status))), str(detail), id or None)
    if status == "pending" and id:
        return Outcome(False, id)
    if status in ("failed", "blocked", "timeout"):
        raise ToolFailed("tool_" + status, "The tool gave no result.", id or None)
    raise ToolFailed("bad_answer", "Aqueduct's answer to the tool call could not be read.", id or None)


def with_id(body: Any, id: str) -> Any:
    """A :wait need not repeat the id."""
    return {**body, "tool_call_id": body.get("tool_call_id") or id} if isinstance(body, dict) else body
