"""`run.agents.invoke()`: another agent does a part of the work (docs/agents.md, "Agents that call agents")."""

import asyncio
import json
import threading
from collections import Counter
from typing import Any, Callable, Dict, List, NamedTuple, Optional
from urllib.parse import quote

from . import http1
from .ask import digest
from .errors import AgentFailed, Gone
from .sse import Event, Parser
from .toolcall import PASSING

#: How often a call is taken up again after its connection broke, and the longest pause before, in seconds.
TRIES = 8
PAUSE = 5.0
#: How often invoke() looks whether anybody still reads the answer, in seconds.
LOOK = 0.2


class Reply(NamedTuple):
    """What the called agent answered."""

    text: str
    usage: Dict[str, Any]
    run_id: str


class Agents:
    """The other agents, by the token of one run. invoke blocks; ainvoke is for async functions."""

    def __init__(self, base_url: str, token: str, run_id: str, gone: Callable[[], bool]):
        self._base, self._token, self._run_id, self._gone = base_url.rstrip("/"), token, run_id, gone
        self._lock = threading.Lock()
        self._calls: Counter = Counter()

    def invoke(self, agent_id: str, message: Any, **more: Any) -> Reply:
        """ainvoke() for functions that may block."""

        async def watched() -> Reply:
            task = asyncio.ensure_future(self.ainvoke(agent_id, message, **more))
            while not task.done():
                await asyncio.wait({task}, timeout=LOOK)
                if self._gone() and not task.done():
                    task.cancel()
                    raise Gone()
            return task.result()

        return asyncio.run(watched())

    async def ainvoke(
        self,
        agent_id: str,
        message: Any,
        *,
        messages: Optional[List[dict]] = None,
        context: Optional[Dict[str, Any]] = None,
        idempotency_key: Optional[str] = None,
        on_text: Optional[Callable[[str], Any]] = None,
        on_state: Optional[Callable[[dict], Any]] = None,
    ) -> Reply:
        """Calls an agent and waits for the end of its answer; AgentFailed when it fails, or may not be called.

        message   what it is asked: text, or content parts
        messages  what it has to know before, in AG-UI's form
        context   names and values that it is given beside
        on_text   is called with each piece of the answer, on_state with what it waits for
        idempotency_key
                  the same key in the same Turn is the same call, whose agent works once. Without one it is made as
                  tool.invoke() makes it, so a function that runs again after an answer gets the reply it had.

        A connection that breaks is taken up again where it broke. Cancelling this cancels the called agent, a few
        seconds later.
        """
        body: Dict[str, Any] = {
            "run_id": self._run_id,
            "input_message": {"role": "user", "content": message},
            "idempotency_key": idempotency_key or self._key([agent_id, message, messages, context]),
        }
        if messages:
            body["messages"] = messages
        if context:
            body["context"] = context
        answer = _Answer(on_text, on_state)
        path = f"{self._base}/v1/agents/{quote(agent_id, safe='')}:invoke"
        tries = 0
        while tries < TRIES:
            answer.came = False
            if await self._read(path, body, answer):
                return Reply("".join(answer.text), answer.usage, answer.run_id)
            tries = 1 if answer.came else tries + 1
            if tries < TRIES:
                await asyncio.sleep(min(PAUSE, 0.2 * 2**tries))
        raise AgentFailed("unreachable", "Aqueduct could not be reached, so what became of the called agent is not known.")

    async def _read(self, path: str, body: dict, answer: "_Answer") -> bool:
        """One request. True when the answer is whole; False when the connection broke, or the server was away."""
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream", "Authorization": "Bearer " + self._token}
        if answer.last_id:
            headers["Last-Event-ID"] = answer.last_id
        try:
            async with http1.request("POST", path, headers, json.dumps(body).encode()) as response:
                if response.status != 200:
                    raw = await response.read()
                    if response.status in PASSING:
                        return False
                    raise refused(response.status, raw)
                events = Parser()
                async for chunk in response.chunks():
                    answer.came = True
                    for event in events.feed(chunk):
                        if answer.take(event):
                            return True
        except (OSError, EOFError, http1.Malformed, TimeoutError):
            pass
        return False

    def _key(self, what: Any) -> str:
        kind = digest(what)
        with self._lock:
            self._calls[kind] += 1
            return f"sdk-{kind}-{self._calls[kind]}"


class _Answer:
    """What has come of an answer so far, over all connections."""

    def __init__(self, on_text: Optional[Callable], on_state: Optional[Callable]) -> None:
        self.text: List[str] = []
        self.usage: Dict[str, Any] = {}
        self.run_id = self.last_id = ""
        self.came = False  # something, over the newest connection
        self._on_text, self._on_state = on_text, on_state

    def take(self, event: Event) -> bool:
        """Takes one event; True for the last."""
        data = json.loads(event.data)
        self.last_id = event.id or self.last_id
        self.run_id = data.get("run_id") or self.run_id
        if event.name == "delta":
            self.text.append(data.get("text", ""))
            if self._on_text:
                self._on_text(data.get("text", ""))
        elif event.name == "state" and self._on_state:
            self._on_state(data)
        elif event.name == "error":
            raise AgentFailed(str(data.get("code", "agent_error")), str(data.get("message", "The called agent failed.")))
        elif event.name == "done":
            self.usage = data.get("usage") or {}
            return True
        return False


def refused(status: int, raw: bytes) -> AgentFailed:
    """What an answer that is no stream means."""
    try:
        body = json.loads(raw)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        body = {}
    return AgentFailed(str(body.get("code", f"http_{status}")), str(body.get("detail") or body.get("title") or f"Aqueduct answered HTTP {status}."))
