"""An agent behind `POST /invoke` and `GET /health`, made of one function.

    @Agent
    async def agent(run):
        yield "You wrote: " + run.prompt

    agent.serve(port=8070)

The function may be an async generator, a generator, or return its whole answer; a subclass
may have it as its method `answer`. It yields text, frames (frames.py) and questions (ask.py).
"""

import contextlib
import json
import logging
import signal
import socketserver
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Iterator, Optional
from urllib.parse import urlsplit

from .outlet import Outlet
from .run import Run
from .steps import Loop

log = logging.getLogger("aqueduct")

#: Seconds a request may pause while it arrives.
PATIENCE = 30.0
#: Seconds a caller may take nothing of what is sent. Aqueduct pauses while its database does.
WRITE_PATIENCE = 300.0


class Agent:
    """An HTTP agent.

    max_body   most bytes of a request
    max_calls  answers at a time; more are refused with 503
    heartbeat  seconds of silence after which a comment says that the agent is alive
    base_url   where Aqueduct is; otherwise it says so itself in each call
    """

    def __init__(
        self,
        answer: Optional[Callable[[Run], Any]] = None,
        *,
        max_body: int = 16 << 20,
        max_calls: int = 256,
        heartbeat: float = 15.0,
        base_url: str = "",
    ):
        if answer is not None:
            self.answer = answer  # type: ignore[method-assign]
        self.max_body, self.heartbeat, self.base_url = max_body, heartbeat, base_url
        self.max_calls = max_calls
        self.room = threading.BoundedSemaphore(max_calls)

    def answer(self, run: Run) -> Any:
        """What the agent says. A subclass has its own."""
        raise NotImplementedError("give Agent a function, or override answer")

    def healthy(self) -> bool:
        """What GET /health tells."""
        return True

    def serve(self, host: str = "127.0.0.1", port: int = 8070, drain: float = 10.0) -> None:
        """Serves until SIGTERM or Ctrl-C; then answers under way have `drain` seconds."""
        ended = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: ended.set())
        with self.running(host, port, drain) as url:
            print("listening on", url, flush=True)
            ended.wait()

    @contextlib.contextmanager
    def running(self, host: str = "127.0.0.1", port: int = 0, drain: float = 0.0) -> Iterator[str]:
        """Serves in the background; gives the agent's address. What is under way after the end is cut."""
        loop = Loop()
        server = _Server((host, port), self, loop)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        try:
            yield f"http://{host}:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()  # nobody new gets in
            self._drain(drain)
            loop.close()

    def _drain(self, seconds: float) -> None:
        """Waits until all room is free, for so long."""
        until, taken = time.monotonic() + seconds, 0
        while taken < self.max_calls and self.room.acquire(timeout=max(0.0, until - time.monotonic())):
            taken += 1
        if taken:
            self.room.release(taken)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple, agent: Agent, loop: Loop):
        self.agent, self.loop = agent, loop
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Without the look-up of the host's name that HTTPServer makes."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]


class _Refused(Exception):
    """A request that is not taken."""

    def __init__(self, status: int, detail: str):
        self.status, self.detail = status, detail


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE

    def do_GET(self) -> None:
        if urlsplit(self.path).path != "/health":
            return self._say(404, {"detail": "not found"})
        well = self.server.agent.healthy()
        self._say(200 if well else 503, {"status": "ok" if well else "failing"})

    def do_POST(self) -> None:
        agent = self.server.agent
        try:
            if urlsplit(self.path).path != "/invoke":
                raise _Refused(404, "not found")
            body = self._body()
            if not agent.room.acquire(blocking=False):
                raise _Refused(503, "too many answers are under way")
        except _Refused as no:
            return self._say(no.status, {"detail": no.detail})
        try:
            self._stream(Run(self.headers, body, agent.base_url))
        finally:
            agent.room.release()

    def _body(self) -> dict:
        """The request's body: an object, in JSON, of bounded size.

        Aqueduct sends no Origin. Browsers do: a page that reaches us by a name of its own
        (DNS rebinding) could otherwise answer the agent's questions in a person's stead.
        """
        if "Origin" in self.headers:
            raise _Refused(403, "agents are not called by pages")
        if self.headers.get_content_type() != "application/json":
            raise _Refused(415, "the body must be application/json")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()) or "Transfer-Encoding" in self.headers:
            raise _Refused(411, "the body's length must be given")
        if int(length) > self.server.agent.max_body:
            raise _Refused(413, "the body is too large")
        try:
            raw = self.rfile.read(int(length))
            body = json.loads(raw)
        except OSError:
            raise _Refused(408, "the body did not arrive in time") from None
        except (ValueError, RecursionError):
            raise _Refused(400, "the body is not JSON") from None
        if not isinstance(body, dict):
            raise _Refused(400, "the body is not an object")
        return body

    def _stream(self, run: Run) -> None:
        """The answer: frames until the end, or until nobody reads any more."""
        self.close_connection = True
        self.connection.settimeout(WRITE_PATIENCE)
        chunked = self.request_version != "HTTP/1.0"
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache, no-transform")
        self.send_header("X-Aqueduct-Resumable", "true")
        self.send_header("Connection", "close")
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        outlet = Outlet(self.connection, chunked, self.server.agent.heartbeat)
        try:
            self.end_headers()  # at once: a caller measures the first byte apart from the first frame
            outlet.play(run, self.server.agent.answer, self.server.loop)
        except OSError:
            log.debug("run %s: the caller went before the answer began", run.id)
        finally:
            outlet.close()

    def _say(self, status: int, body: dict) -> None:
        """A short answer. A refused body is not read, so the connection ends with it."""
        raw = json.dumps(body).encode()
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(raw)

    def version_string(self) -> str:
        return "aqueduct-agent"

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)
