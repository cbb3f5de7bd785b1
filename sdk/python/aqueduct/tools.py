"""`run.tool.invoke()`: a tool that Aqueduct runs, or asks people about, as if it were a call.

The policy of the server decides whether it runs at once or a person is asked; invoke()
returns when there is a result, however long that takes, or raises ToolFailed.
"""

import asyncio
import http.client
import json
import socket
import threading
import time
from collections import Counter
from typing import Any, Callable, Generator, Optional
from urllib.parse import urlsplit

from . import http1
from .ask import digest
from .errors import Gone
from .toolcall import Post, Reply, Sleep, call


class Tools:
    """The tools of one call of an agent. The run token is good for this Turn alone."""

    def __init__(self, base_url: str, token: str, run_id: str, traceparent: str = "", called: Callable[[str], None] = lambda _: None):
        self._base, self._token, self._run_id = base_url.rstrip("/"), token, run_id
        self._trace, self._called = traceparent, called
        self._lock = threading.Lock()
        self._calls: Counter = Counter()
        self._live: set = set()  # connections that wait now
        self._aborted = threading.Event()

    @property
    def aborted(self) -> bool:
        return self._aborted.is_set()

    def invoke(
        self,
        name: str,
        args: Any = None,
        idempotency_key: Optional[str] = None,
        timeout: Optional[float] = None,
        wait: Optional[float] = None,
        call_id: Optional[str] = None,
    ) -> Any:
        """Calls a tool and waits for its result.

        timeout  seconds the tool may run; the time people take to decide does not count
        wait     seconds to wait in all; then ToolPending is raised and the call goes on.
                 None waits until it has ended: approved, rejected or expired, it does end
        idempotency_key
                 the same key in the same Turn is the same call, and runs once. Without one the
                 key is made from name, arguments and how many such calls came before in this
                 run of the function, so that a function that runs again after an answer
                 (replay.py) gets the results it had and does nothing twice.
        call_id  the id by which the agent shows the call itself (frames.tool_call): it is then in the chat once
        """
        steps = self._steps(name, args, idempotency_key, timeout, wait, call_id)
        given: Any = None
        while True:
            try:
                step = steps.send(given)
            except StopIteration as end:
                return end.value
            if self.aborted:
                raise Gone()
            given = None
            if isinstance(step, Sleep):
                self._aborted.wait(step.seconds)
            else:
                given = self._post(step)

    async def ainvoke(
        self,
        name: str,
        args: Any = None,
        idempotency_key: Optional[str] = None,
        timeout: Optional[float] = None,
        wait: Optional[float] = None,
        call_id: Optional[str] = None,
    ) -> Any:
        """The same for async functions; cancelling it stops waiting, not the tool."""
        steps = self._steps(name, args, idempotency_key, timeout, wait, call_id)
        given: Any = None
        while True:
            try:
                step = steps.send(given)
            except StopIteration as end:
                return end.value
            if self.aborted:
                raise Gone()
            given = None
            if isinstance(step, Sleep):
                await asyncio.sleep(step.seconds)
            else:
                given = await self._apost(step)

    def abort(self) -> None:
        """Ends every wait: nobody reads this answer any more."""
        with self._lock:
            self._aborted.set()
            for sock in self._live:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # it is closed already

    def _steps(
        self, name: str, args: Any, key: Optional[str], timeout: Optional[float], wait: Optional[float], call_id: Optional[str]
    ) -> Generator:
        if urlsplit(self._base).scheme not in ("http", "https"):
            raise ValueError("no address to call tools at: Aqueduct sends it as x-aqueduct-base-url")
        args = {} if args is None else args
        key = key or self._key(name, args)
        self._called(key)
        return call(self._run_id, name, args, key, timeout, wait, time.monotonic(), call_id)

    def _key(self, name: str, args: Any) -> str:
        kind = digest([name, args])
        with self._lock:
            self._calls[kind] += 1
            return f"sdk-{kind}-{self._calls[kind]}"

    def _headers(self) -> dict:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._token:
            headers["Authorization"] = "Bearer " + self._token
        if self._trace:
            headers["traceparent"] = self._trace
        return headers

    def _post(self, post: Post) -> Reply:
        """One request on a connection of its own. Status 0 means that it broke."""
        url = urlsplit(self._base)
        secure = url.scheme == "https"
        conn = (http.client.HTTPSConnection if secure else http.client.HTTPConnection)(url.netloc, timeout=post.timeout)
        try:
            conn.connect()
            self._hold(conn.sock)
            conn.request("POST", url.path + post.path, json.dumps(post.body).encode(), self._headers())
            answer = conn.getresponse()
            return Reply(answer.status, _json(answer.read()), time.monotonic())
        except (OSError, http.client.HTTPException):
            return Reply(0, None, time.monotonic())
        finally:
            self._drop(conn.sock)
            conn.close()

    def _hold(self, sock: socket.socket) -> None:
        with self._lock:
            if self.aborted:
                raise Gone()
            self._live.add(sock)

    def _drop(self, sock: Optional[socket.socket]) -> None:
        with self._lock:
            self._live.discard(sock)

    async def _apost(self, post: Post) -> Reply:
        try:
            async with asyncio.timeout(post.timeout):
                async with http1.request("POST", self._base + post.path, self._headers(), json.dumps(post.body).encode()) as answer:
                    return Reply(answer.status, _json(await answer.read()), time.monotonic())
        except (OSError, EOFError, http1.Malformed, TimeoutError):
            return Reply(0, None, time.monotonic())


def _json(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return None
