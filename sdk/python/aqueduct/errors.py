"""What can go wrong, as exceptions. Messages may be shown to people."""

from typing import Optional


class AqueductError(Exception):
    """Anything with a stable code and words for people."""

    def __init__(self, code: str, message: str):
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class AgentError(AqueductError):
    """Raised by an agent to end its answer with an error of its own."""


class ToolFailed(AqueductError):
    """A tool did not give a result: it failed, was refused, or nobody approved it."""

    def __init__(self, code: str, message: str, tool_call_id: Optional[str] = None):
        super().__init__(code, message)
        self.tool_call_id = tool_call_id


class ToolPending(AqueductError):
    """A tool has not ended in the time the caller would wait.

    It goes on; but what people have not decided when the answer ends is taken back.
    """

    def __init__(self, tool_call_id: str):
        super().__init__("tool_pending", "The tool has not ended yet.")
        self.tool_call_id = tool_call_id


class ContextFailed(AqueductError):
    """The context store refused, or could not be reached."""


class ContextMoved(ContextFailed):
    """The entry has another version than the one that was to be replaced."""


class AgentFailed(AqueductError):
    """An agent that was called gave no answer: it failed, was cancelled, or may not be called."""


class Gone(AqueductError):
    """Nobody reads this answer any more: the Turn was cancelled, or the server left."""

    def __init__(self) -> None:
        super().__init__("gone", "Nobody waits for this answer any more.")


class ChatError(AqueductError):
    """A chat ended with an error, or was not taken."""

    def __init__(self, code: str, message: str, status: int = 0, problem: Optional[dict] = None):
        super().__init__(code, message)
        self.status = status
        self.problem = problem or {}
