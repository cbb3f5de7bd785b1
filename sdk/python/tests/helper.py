"""What several tests want: agents called over real sockets, and servers that misbehave."""

import asyncio
import http.client
import json
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import context  # noqa: F401
from aqueduct import sse

PROMPT = {"input_message": {"role": "user", "content": "hi"}, "run_id": "turn-1"}


def invoke(url, body=None, headers=None, timeout=10):
    """Calls an agent and gives its frames as (name, data)."""
    status, raw = post(url + "/invoke", PROMPT if body is None else body, headers, timeout)
    assert status == 200, (status, raw)
    return frames(raw)


def frames(raw):
    return [(e.name, json.loads(e.data)) for e in sse.Parser().feed(raw)]


def post(url, body, headers=None, timeout=10):
    parts = urlsplit(url)
    conn = http.client.HTTPConnection(parts.netloc, timeout=timeout)
    try:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        conn.request("POST", parts.path, raw, {"Content-Type": "application/json", **(headers or {})})
        answer = conn.getresponse()
        return answer.status, answer.read()
    finally:
        conn.close()


def words(got):
    return "".join(data["text"] for name, data in got if name == "delta")


@contextmanager
def serving(handle):
    """A server whose handle(handler, body) answers everything."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.close_connection = True
            handle(self, json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null"))

        do_GET = do_POST

        def say(self, status, body, kind="application/json"):
            raw = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def hang_up(self):
            """Breaks the connection in the middle of things."""
            self.close_connection = True
            try:
                self.connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_):
            pass  # a client that went away

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def gather(chunks):
    return [c async for c in chunks]


def collect(chunks):
    """All of an async iterator."""
    return asyncio.run(gather(chunks))
