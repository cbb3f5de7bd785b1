"""What a chat yields beside words, and how it is read off AG-UI events.

Each object can be printed: its text says in one line what happened.
"""

import json
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Optional, Union

from .errors import ChatError


@dataclass(frozen=True)
class ToolCall:
    """The agent uses a tool."""

    id: str
    name: str
    args: Any

    def __str__(self) -> str:
        return f"\n[{self.name} {_short(self.args)}]\n"


@dataclass(frozen=True)
class ToolResult:
    """What a tool, or a question, gave. `content` is the text as it came."""

    id: str
    content: str

    def __str__(self) -> str:
        return f"\n[-> {_short(self.content)}]\n"


@dataclass(frozen=True)
class Approval:
    """Somebody must decide: client.approve(id), client.reject(id). The chat waits."""

    id: str
    title: str
    tool: str
    args: Any
    options: List[dict] = field(default_factory=list)
    risk: str = ""
    expires_at: str = ""

    def __str__(self) -> str:
        return f"\n[may it? {self.title or self.tool} {_short(self.args)}]\n"


@dataclass(frozen=True)
class Question:
    """Somebody must enter something: client.answer(id, payload). The chat waits."""

    id: str
    title: str
    schema: Optional[dict] = None
    expires_at: str = ""

    def __str__(self) -> str:
        return f"\n[asks: {self.title}]\n"


@dataclass(frozen=True)
class Settled:
    """A question was settled elsewhere."""

    id: str
    status: str

    def __str__(self) -> str:
        return f"\n[{self.status}]\n"


Chunk = Union[str, ToolCall, ToolResult, Approval, Question, Settled]

PERMISSION = "request_permission"


class Reader:
    """Folds events of one chat. `outcome` is how the newest Run ended: "", interrupt, over."""

    def __init__(self) -> None:
        self.run_id = ""
        self.outcome = ""
        self._calls: Dict[str, list] = {}  # name and pieces of arguments, until they end
        self._shown: set = set()  # Approvals and ToolCalls that were yielded
        self._refused = False

    def read(self, event: dict) -> Iterator[Chunk]:
        """What one event means for people."""
        kind = event.get("type")
        if kind in ("TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CHUNK"):
            if event.get("delta"):
                yield event["delta"]
        elif kind == "RUN_STARTED":
            self.run_id, self.outcome = event.get("runId", ""), ""
        elif kind == "TOOL_CALL_START":
            self._calls[event["toolCallId"]] = [event.get("toolCallName", "")]
        elif kind == "TOOL_CALL_ARGS":
            self._calls.get(event["toolCallId"], []).append(event.get("delta", ""))
        elif kind == "TOOL_CALL_END":
            yield from self._called(event["toolCallId"])
        elif kind == "TOOL_CALL_RESULT":
            yield ToolResult(event["toolCallId"], _text(event.get("content")))
        elif kind == "CUSTOM":
            yield from self._custom(event)
        elif kind == "RUN_ERROR":
            self.outcome = "over"
            raise ChatError(event.get("code") or "run_error", event.get("message") or "The run failed.")
        elif kind == "RUN_FINISHED":
            yield from self._finished(event.get("outcome") or _asked_by_custom(event))

    def _called(self, id: str) -> Iterator[Chunk]:
        name, *pieces = self._calls.pop(id, [""])
        args = _json("".join(pieces))
        if id in self._shown:
            return
        self._shown.add(id)
        if name == PERMISSION and isinstance(args, dict):
            yield Approval(
                id, _str(args.get("title")), _str(args.get("tool")), args.get("args"),
                args.get("options") or [], _str(args.get("risk")), _str(args.get("expires_at")),
            )
        else:
            yield ToolCall(id, name, args)

    def _custom(self, event: dict) -> Iterator[Chunk]:
        value = event.get("value") or {}
        if event.get("name") == "question_settled":
            yield Settled(value.get("id", ""), value.get("status", ""))
        elif event.get("name") == "message_not_taken":
            self._refused = True

    def _finished(self, outcome: dict) -> Iterator[Chunk]:
        if outcome.get("type") != "interrupt":
            self.outcome = "over"
            return
        self.outcome = "interrupt"
        open = outcome.get("interrupts") or []
        if self._refused:
            raise ChatError("message_not_taken", "A question is open; it must be answered first.", problem={"interrupts": open})
        for i in open:
            if i["id"] not in self._shown or i.get("reason") == "input_required":
                if ("asked", i["id"]) not in self._shown:
                    self._shown.add(("asked", i["id"]))
                    yield _asked(i)


def _asked_by_custom(event: dict) -> dict:
    """The outcome of a run that asked by CUSTOM on_interrupt: it has none, and names its questions in the metadata."""
    ours = (event.get("metadata") or {}).get("aqueduct") or {}
    return {"type": "interrupt", "interrupts": ours["interrupts"]} if ours.get("interrupts") else {}


def _asked(interrupt: dict) -> Chunk:
    title, until = _str(interrupt.get("message")), _str(interrupt.get("expiresAt"))
    if interrupt.get("reason") == "input_required":
        return Question(interrupt["id"], title, interrupt.get("responseSchema"), until)
    return Approval(interrupt["id"], title, "", None, expires_at=until)


def _json(text: str) -> Any:
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text


def _str(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(_str(p.get("text")) for p in content if isinstance(p, dict))
    return _str(content)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= 200 else text[:199] + "…"
