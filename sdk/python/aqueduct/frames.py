"""The frames an agent may send: what docs/protocol.md names under "HTTP agents".

A frame is a name and a JSON object. Agents make them with the functions below and
yield them; plain text may be yielded as it is.
"""

import json
from typing import Any, NamedTuple, Optional


class Frame(NamedTuple):
    """One SSE event before it is written."""

    name: str
    data: dict


def encode(frame: Frame) -> bytes:
    """The bytes of a frame. JSON has no raw line breaks, so one data line is enough."""
    data = json.dumps(frame.data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # Half a surrogate pair cannot be written as UTF-8; it becomes a question mark.
    return f"event: {frame.name}\ndata: {data}\n\n".encode("utf-8", "replace")


def text(words: str) -> Frame:
    """Words of the answer. Yielding a str does the same."""
    return Frame("delta", {"text": words})


def thought(words: str) -> Frame:
    """Words of the reasoning, shown apart from the answer."""
    return Frame("thought", {"text": words})


def state(name: str, detail: Optional[dict] = None) -> Frame:
    """What the agent is doing; kept in the chat's state under /agent."""
    return Frame("state", {"state": name} if detail is None else {"state": name, "detail": detail})


def step(name: str, status: str) -> Frame:
    """A step of the work; status is "started" or "finished"."""
    return Frame("step", {"name": name, "status": status})


def tool_call(id: str, name: str, args: Any = None) -> Frame:
    """Shows a tool that the agent runs itself. The id is the agent's own."""
    return Frame("tool_call", {"id": id, "name": name, "args": {} if args is None else args})


def tool_result(id: str, content: Any) -> Frame:
    """Shows what a tool gave."""
    return Frame("tool_result", {"id": id, "content": content})


def state_snapshot(snapshot: Any) -> Frame:
    """The chat's whole state."""
    return Frame("state_snapshot", {"snapshot": snapshot})


def state_delta(patch: list) -> Frame:
    """A change of the chat's state, as JSON Patch (RFC 6902)."""
    return Frame("state_delta", {"delta": patch})


def activity(id: str, type: str, content: Optional[dict] = None, patch: Optional[list] = None) -> Frame:
    """Something shown in the chat that is not a message: its content first, then patches."""
    body = {"id": id, "type": type}
    if patch is not None:
        body["patch"] = patch
    else:
        body["content"] = content or {}
    return Frame("activity", body)


def custom(name: str, value: Any = None) -> Frame:
    """Anything the frontend knows by name."""
    return Frame("custom", {"name": name, "value": value})


def done(usage: Optional[dict] = None, pending: Optional[list] = None, result: Any = None) -> Frame:
    """The end. The base sends it; agents do not.

    pending is always told: an empty list says that whatever was asked meanwhile, by tools
    too, nobody waits for it any more.
    """
    body: dict = {"usage": usage or {}, "pending": pending or []}
    if result is not None:
        body["result"] = result
    return Frame("done", body)


def error(code: str, message: str) -> Frame:
    """The end of an answer that failed. The base sends it; agents raise AgentError."""
    return Frame("error", {"code": code, "message": message})
