"""One call of an agent: what Aqueduct sent, and what the agent can do about it."""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional
from urllib.parse import unquote

from .agentcalls import Agents
from .ask import Answer
from .contexts import Contexts
from .errors import AgentError
from .replay import Replay
from .tools import Tools
from .transcripts import Page, blocking, read


class LLM(NamedTuple):
    """The model proxy (docs/models.md), by the token of one run."""

    base_url: str
    api_key: str


class Run:
    """What an agent's function is given. `id` is the Turn: the same in every call of it."""

    def __init__(self, headers: Mapping[str, str], body: Dict[str, Any], base_url: str = ""):
        self.body = body
        self.id = headers.get("x-run-id") or _text(body.get("run_id"))
        self.session_id = unquote(headers.get("x-session-id") or "") or _text(body.get("session_id"))
        #: Aqueduct's own id of the conversation; session_id is the client's, which only that user cannot have twice.
        self.aqueduct_session_id = headers.get("x-aqueduct-session-id", "")
        self.agent_id = _text(body.get("agent_id"))
        self.user_id = _text(_dict(body.get("context")).get("user_id"))
        self.traceparent = headers.get("traceparent", "")
        self.messages: List[dict] = _dicts(body.get("messages"))
        self.input: dict = _dict(body.get("input_message"))
        self.client_tools: List[dict] = _dicts(body.get("tools"))
        self.client_context: List[dict] = _dicts(body.get("client_context"))
        self.state = body.get("state")
        self.forwarded_props = body.get("forwarded_props")
        self.replay = Replay(_dicts(body.get("resume")))
        #: True when this call brings answers to what an earlier one asked.
        self.resumed = bool(_dicts(body.get("resume")))
        self.tool = Tools(
            base_url or headers.get("x-aqueduct-base-url", ""),
            headers.get("x-aqueduct-run-token", ""),
            self.id,
            self.traceparent,
            self.replay.called,
        )
        base, token = base_url or headers.get("x-aqueduct-base-url", ""), headers.get("x-aqueduct-run-token", "")
        #: What is kept under keys, for this run and later ones.
        self.context = Contexts(base, token)
        #: Other agents.
        self.agents = Agents(base, token, self.id, lambda: self.gone)
        #: Where any client of OpenAI's API calls models: OpenAI(base_url=run.llm.base_url, api_key=run.llm.api_key).
        self.llm = LLM(base.rstrip("/") + "/v1", token)
        self._transcript = (base, token, self.aqueduct_session_id or self.session_id)
        self.usage: Dict[str, Any] = {}
        #: What the Run gives as its result, beside its words.
        self.result: Any = None

    @property
    def prompt(self) -> str:
        """What the person wrote. A resumed call has the same prompt as the first."""
        if self.input.get("role") == "user":
            return words(self.input)
        for message in reversed(self.messages):
            if message.get("role") == "user":
                return words(message)
        return words(self.input)

    @property
    def enable_tools(self) -> bool:
        """False when the caller asked for words alone (client.chat(enable_tools=False))."""
        return _dict(self.forwarded_props).get("enable_tools") is not False

    @property
    def gone(self) -> bool:
        """Nobody reads any more."""
        return self.tool.aborted

    def transcript(self, limit: Optional[int] = None, before: Optional[str] = None, format: Optional[str] = None) -> Page:
        """The newest messages of the thread, or those before a page; format="openai" for OpenAI's form."""
        return blocking(*self._transcript, limit, before, format)

    async def atranscript(self, limit: Optional[int] = None, before: Optional[str] = None, format: Optional[str] = None) -> Page:
        """The same for async functions."""
        return await read(*self._transcript, limit, before, format)

    def answer(self, id: str) -> Optional[Answer]:
        """The answer to the question asked under that id: the two-step form of asking."""
        return self.replay.answer(id)

    def used(self, **tokens: int) -> None:
        """Adds to the usage told at the end: input_tokens=…, output_tokens=…, total_tokens=…"""
        for name, n in tokens.items():
            self.usage[name] = self.usage.get(name, 0) + n

    def fail(self, code: str, message: str) -> None:
        """Ends the answer with an error. Like raise AgentError(code, message)."""
        raise AgentError(code, message)


def words(message: dict) -> str:
    """A message's text; of a list of parts those that are text."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "".join(_text(p.get("text")) for p in _dicts(content) if p.get("type") == "text")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _dict(value: Any) -> dict:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> List[dict]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []
