"""The context store, against a stand-in for the server that misbehaves."""

import asyncio
import json
import threading
import unittest
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest import mock

import context  # noqa: F401
from aqueduct import ContextFailed, ContextMoved, Contexts, Run
from aqueduct.contexts import encoded


class Fake:
    """Answers each request as if it had written an entry. trouble is with which statuses to answer first."""

    def __init__(self):
        self.seen, self.trouble = [], []

    def answer(self, h):
        """The status and the body of an answer; a status of 0 is a connection that breaks."""
        self.seen.append((h.command, h.path, h.headers.get("If-Match")))
        h.rfile.read(int(h.headers.get("Content-Length") or 0))
        trouble = self.trouble.pop(0) if self.trouble else None
        if trouble is not None:
            return trouble, {"code": "storage_unavailable", "detail": "Try again."}
        if h.headers.get("Authorization") != "Bearer token-1":
            return 401, {"code": "unauthorized", "detail": "No."}
        return 201, {"context_key": "k", "version": 1, "content_type": h.headers.get("Content-Type")}


@contextmanager
def faked():
    fake = Fake()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = fake.answer(self)
            if status:
                raw = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

        do_POST = do_PUT = do_DELETE = do_GET

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield fake, Contexts(f"http://127.0.0.1:{server.server_address[1]}", "token-1")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Requests(unittest.TestCase):
    def setUp(self):
        pause = mock.patch("aqueduct.contexts.time.sleep")
        pause.start()
        self.addCleanup(pause.stop)

    def test_a_server_that_is_away_is_asked_again(self):
        with faked() as (fake, store):
            fake.trouble = [503, 429]
            self.assertEqual(store.put({"a": 1}).key, "k")
            self.assertEqual([method for method, _, _ in fake.seen], ["POST"] * 3)
            fake.trouble = [503] * 9
            with self.assertRaises(ContextFailed) as no:
                store.put("x")
            self.assertEqual(no.exception.code, "storage_unavailable")

    def test_what_may_count_is_not_sent_twice(self):
        with faked() as (fake, store):
            fake.trouble = [0]
            with self.assertRaises(ContextFailed) as no:
                store.put("x", "k", if_version=1)
            self.assertEqual(no.exception.code, "unreachable")
            self.assertEqual(fake.seen, [("PUT", "/v1/context/k", '"1"')])

    def test_refusals(self):
        with faked() as (_, store):
            store._token = "other"
            with self.assertRaises(ContextFailed) as no:
                asyncio.run(store.aget("k"))
            self.assertEqual((no.exception.code, no.exception.message), ("unauthorized", "No."))
            with mock.patch.object(store, "_once", return_value=(412, {}, b'{"code":"version_conflict","detail":"It has 3."}')):
                with self.assertRaises(ContextMoved):
                    store.delete("k", if_version=2)
            with mock.patch.object(store, "_once", return_value=(418, {}, b"<html>")):
                with self.assertRaises(ContextFailed) as no:
                    store.get("k")
                self.assertEqual(no.exception.code, "http_418")

    def test_keys_are_quoted_and_owners_named(self):
        with faked() as (fake, store):
            store.put(b"x", owner="run", ttl=5)
            store.delete("a/b c")
            self.assertEqual([path for _, path, _ in fake.seen], ["/v1/context?ttl_seconds=5&owner_type=run", "/v1/context/a%2Fb%20c"])

    def test_files(self):
        with faked() as (fake, store):
            self.assertEqual(store.file({"source": {"type": "data", "value": "eA=="}}), b"x")
            for value in ("/api/threads/t/parts/s", store._base + "/api/threads/t/parts/s"):
                self.assertIn(b"context_key", asyncio.run(store.afile({"source": {"type": "url", "value": value}})))
            self.assertEqual([path for _, path, _ in fake.seen], ["/api/threads/t/parts/s"] * 2)
            for source in ({"type": "url", "value": "http://evil.example/api/threads/x"}, {"type": "url", "value": store._base + ".evil/x"}, {"type": "file", "value": "f"}, None):
                with self.assertRaises(ValueError):
                    store.file({"source": source})
            self.assertEqual(len(fake.seen), 2)

    def test_a_run_has_one(self):
        with self.assertRaises(ValueError):
            Run({}, {}).context.get("k")


class Contents(unittest.TestCase):
    def test_types(self):
        self.assertEqual(encoded(b"\xff", None), ("application/octet-stream", b"\xff"))
        self.assertEqual(encoded("ä", None), ("text/plain; charset=utf-8", "ä".encode()))
        self.assertEqual(encoded([1], None), ("application/json", json.dumps([1]).encode()))
        self.assertEqual(encoded(b"x", "image/png"), ("image/png", b"x"))


if __name__ == "__main__":
    unittest.main()
