"""Talks to agents through Aqueduct.

    client = Client("http://127.0.0.1:8080")
    async for chunk in client.chat("Please read the file", session_id="session_123", enable_tools=True):
        print(chunk, end="")
"""

import asyncio
import json
import uuid
from contextlib import aclosing
from typing import Any, AsyncIterator, Dict, List, Optional
from urllib.parse import quote, urlencode

from . import http1
from .errors import ChatError
from .events import Chunk, Reader
from .tailing import Tail, problem
from .token import find

#: Seconds one short request may take.
TIMEOUT = 30.0


class Client:
    """A caller. Without a token, the one of this machine's server is looked for (token.py); "" is none."""

    def __init__(self, base_url: str = "http://127.0.0.1:8080", token: Optional[str] = None, agent: str = ""):
        if token is None:
            token = find(base_url)
        self._base, self._agent = base_url.rstrip("/"), agent
        self._headers = {"Authorization": "Bearer " + token} if token else {}

    async def chat(
        self,
        message: str,
        session_id: str,
        enable_tools: bool = True,
        *,
        follow: bool = True,
        tools: Optional[List[dict]] = None,
        context: Optional[List[dict]] = None,
    ) -> AsyncIterator[Chunk]:
        """Says something and yields the answer as it comes: words as str and, with
        enable_tools, tool calls, results and questions as objects (events.py).

        At a question the iterator waits until it is settled, by approve() or reject() or by
        anybody else, and goes on with what the agent then says; follow=False ends there.
        Leaving the loop early leaves the agent at work; cancel(session_id) ends that.
        enable_tools=False also tells the agent so (forwardedProps), which it may heed.
        """
        body: Dict[str, Any] = {
            "protocolVersion": "1.0",
            "threadId": session_id,
            "runId": "run-" + uuid.uuid4().hex,
            "messages": [{"id": "msg-" + uuid.uuid4().hex, "role": "user", "content": message}],
            "tools": tools or [],
            "context": context or [],
            "state": {},
            "forwardedProps": {"enable_tools": enable_tools},
        }
        query = {"follow": "1"} if follow else {}
        if self._agent:
            query["agent"] = self._agent
        reader = Reader()
        tail = Tail(self._base, self._headers, "?" + urlencode(query) if query else "", body, reader, follow)
        async with aclosing(tail.events()) as events:
            async for event in events:
                for chunk in reader.read(event):
                    if enable_tools or isinstance(chunk, str):
                        yield chunk

    async def approve(self, id: str, option_id: Optional[str] = None, reason: str = "") -> dict:
        """Says yes. The same again is no error; a ChatError already_decided has the other decision."""
        return await self._decide(id, {"option_id": option_id} if option_id else {"approved": True}, reason)

    async def reject(self, id: str, reason: str = "") -> dict:
        """Says no."""
        return await self._decide(id, {"approved": False}, reason)

    async def answer(self, id: str, payload: Any, reason: str = "") -> dict:
        """Answers a Question."""
        return await self._decide(id, {"payload": payload}, reason)

    async def tool_result(self, id: str, result: Any) -> dict:
        """Gives what one of the chat's own `tools` gave."""
        return await self._call("POST", f"/api/tool_calls/{quote(id, safe='')}/result", {"result": result})

    async def approvals(self, session_id: str, status: str = "PENDING") -> List[dict]:
        """What people are asked in a chat; nothing in one that has not begun."""
        query = urlencode({"thread_id": session_id, "status": status})
        try:
            return (await self._call("GET", "/api/approvals?" + query))["approvals"]
        except ChatError as no:
            if no.status != 404:
                raise
            return []

    async def cancel(self, session_id: str) -> Optional[dict]:
        """Ends what the agent is doing in a chat."""
        thread = await self._call("GET", f"/api/threads/{quote(session_id, safe='')}")
        run = thread.get("lastRun")
        return await self._call("POST", f"/api/runs/{quote(run['id'], safe='')}/cancel", {}) if run else None

    async def _decide(self, id: str, decision: dict, reason: str) -> dict:
        if reason:
            decision["reason"] = reason
        return await self._call("POST", f"/api/approvals/{quote(id, safe='')}/decision", decision)

    async def _call(self, method: str, path: str, body: Optional[dict] = None) -> Any:
        headers = {**self._headers, "Accept": "application/json"}
        raw = None
        if body is not None:
            headers["Content-Type"], raw = "application/json", json.dumps(body).encode()
        async with asyncio.timeout(TIMEOUT):
            async with http1.request(method, self._base + path, headers, raw) as answer:
                if answer.status >= 300:
                    raise await problem(answer)
                got = await answer.read()
                return json.loads(got) if got else {}
