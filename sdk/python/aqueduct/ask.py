"""Questions an agent asks people or the frontend.

    answer = yield ask.permission("Delete the folder build?", tool="delete_folder")
    if answer.approved: ...

How one line can wait for days is told in replay.py.
"""

import hashlib
import json
from typing import Any, Iterable, NamedTuple, Optional, Tuple

from .frames import Frame

#: The options of a permission that names none.
OPTIONS = (
    ("once", "Allow once", "allow_once"),
    ("always", "Always allow", "allow_always"),
    ("no", "Reject", "reject_once"),
)


class Ask(NamedTuple):
    """A question not asked yet. Its key tells it from the other questions of the Turn."""

    key: str
    name: str  # of the frame: ask or call_client_tool
    data: dict

    def frame(self, id: str) -> Frame:
        return Frame(self.name, {"id": id, **self.data})


class Answer(NamedTuple):
    """What came of a question. It is true when the answer is a yes."""

    id: str
    status: str  # resolved or cancelled
    payload: Any

    @property
    def cancelled(self) -> bool:
        """Nobody answered: declined, taken back, or too late."""
        return self.status != "resolved"

    @property
    def approved(self) -> bool:
        """Somebody said yes to a permission. Everything else is no."""
        return not self.cancelled and isinstance(self.payload, dict) and self.payload.get("approved") is True

    @property
    def option(self) -> Optional[str]:
        """The id of the option that was chosen."""
        return self.payload.get("optionId") if isinstance(self.payload, dict) else None

    @property
    def value(self) -> Any:
        """What a person entered; of a client tool what it gave: a dict or a list where its text is JSON, else the text."""
        if isinstance(self.payload, dict) and set(self.payload) == {"content"}:
            return _structured(self.payload["content"])
        return self.payload

    def __bool__(self) -> bool:
        """No answer and a no are both false, so that `if answer:` is never a yes by mistake."""
        if isinstance(self.payload, dict) and "approved" in self.payload:
            return self.approved
        return not self.cancelled


def _structured(content: Any) -> Any:
    """AG-UI has a tool's result as text, JSON in most cases. Text that only looks like a number or a word of JSON stays text."""
    if isinstance(content, str) and content.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(content)
        except ValueError:
            pass
    return content


def permission(
    title: str,
    tool: str = "",
    args: Any = None,
    options: Iterable[Tuple[str, str, str]] = OPTIONS,
    risk: str = "medium",
    expires_in: Optional[float] = None,
    id: Optional[str] = None,
) -> Ask:
    """May the agent do this? Options are (id, label, kind); only the kind decides."""
    data = {
        "kind": "permission",
        "title": title,
        "tool": tool,
        "args": {} if args is None else args,
        "options": [{"id": i, "label": label, "kind": kind} for i, label, kind in options],
        "risk": risk,
    }
    return _ask("ask", data, expires_in, id)


def question(
    title: str,
    schema: Optional[dict] = None,
    name: str = "ask_user",
    args: Any = None,
    expires_in: Optional[float] = None,
    id: Optional[str] = None,
) -> Ask:
    """Asks a person for something; schema is a JSON Schema of the answer."""
    data = {"kind": "input", "title": title, "name": name, "args": {} if args is None else args}
    if schema is not None:
        data["response_schema"] = schema
    return _ask("ask", data, expires_in, id)


def client_tool(name: str, args: Any = None, expires_in: Optional[float] = None, id: Optional[str] = None) -> Ask:
    """Has the frontend run a tool that it declared (run.client_tools)."""
    return _ask("call_client_tool", {"name": name, "args": {} if args is None else args}, expires_in, id)


def _ask(frame: str, data: dict, expires_in: Optional[float], key: Optional[str]) -> Ask:
    if key is None:
        key = "q" + digest([frame, data])
    elif not key or "~" in key:
        raise ValueError("the id of a question must not be empty or hold a '~'")
    if expires_in is not None:
        data["expires_in"] = expires_in
    return Ask(key, frame, data)


def digest(value: Any) -> str:
    """A short name for a JSON value: the same for the same."""
    raw = json.dumps(value, sort_keys=True, separators=(",", ":")).encode("utf-8", "replace")
    return hashlib.sha256(raw).hexdigest()[:24]
