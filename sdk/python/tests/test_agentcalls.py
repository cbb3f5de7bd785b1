"""Calls of other agents, against a stand-in for the server that breaks off."""

import asyncio
import json
import threading
import unittest
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest import mock

import context  # noqa: F401
from aqueduct import AgentFailed, AqueductError, Gone, Run, agentcalls

FRAMES = [("state", {"run_id": "c1", "state": "RUNNING"}), ("delta", {"run_id": "c1", "text": "one "}), ("delta", {"run_id": "c1", "text": "two"})]


class Fake:
    """A called agent whose connection breaks after so many frames; end is the last one."""

    def __init__(self):
        self.cuts, self.end, self.seen, self.hang = [], ("done", {"run_id": "c1", "usage": {"total_tokens": 3}}), [], threading.Event()
        self.status = 200

    def frames(self, after):
        frames = [*FRAMES, self.end][after:]
        return [f"id: {after + i + 1}\nevent: {name}\ndata: {json.dumps(data)}\n\n" for i, (name, data) in enumerate(frames)]


@contextmanager
def calling():
    fake = Fake()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            after = int(self.headers.get("Last-Event-ID") or 0)
            fake.seen.append((self.path, body, after, self.headers["Authorization"]))
            if fake.status != 200:
                self.send_response(fake.status)
                self.end_headers()
                self.wfile.write(b'{"code":"agent_call_loop","detail":"py is on the way already."}')
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for frame in fake.frames(after)[: fake.cuts.pop(0) if fake.cuts else None]:
                self.wfile.write(frame.encode())
            if fake.hang.is_set():
                self.wfile.flush()
                self.connection.recv(1)  # until the caller leaves

        def do_GET(self):
            fake.seen.append(self.path)
            raw = b'{"messages":[{"role":"user","content":"hi"}],"has_more":true,"before":"m7"}'
            if fake.status == 502:
                raw = b"<html>Bad gateway</html>"
            self.send_response(fake.status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    headers = {"x-aqueduct-base-url": f"http://127.0.0.1:{server.server_address[1]}", "x-aqueduct-run-token": "token-1", "x-run-id": "r1", "x-aqueduct-session-id": "s1"}
    try:
        with mock.patch.object(agentcalls, "PAUSE", 0.01):
            yield fake, Run(headers, {})
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class AgentCalls(unittest.TestCase):
    def test_whole(self):
        with calling() as (fake, run):
            states = []
            got = run.agents.invoke("a b", "hi", messages=[{"role": "user", "content": "x"}], on_state=states.append)
        self.assertEqual((got.text, got.usage, got.run_id), ("one two", {"total_tokens": 3}, "c1"))
        path, body, _, key = fake.seen[0]
        self.assertEqual((path, key, body["run_id"], body["input_message"]["content"]), ("/v1/agents/a%20b:invoke", "Bearer token-1", "r1", "hi"))
        self.assertEqual(states, [FRAMES[0][1]])

    def test_broken_connections(self):
        with calling() as (fake, run):
            fake.cuts = [2, 0, 1]
            got = asyncio.run(run.agents.ainvoke("a", "hi"))
        self.assertEqual(got.text, "one two")
        self.assertEqual([after for _, _, after, _ in fake.seen], [0, 2, 2, 3])
        self.assertEqual(len({body["idempotency_key"] for _, body, _, _ in fake.seen}), 1)

    def test_same_call_again(self):
        with calling() as (fake, run):
            run.agents.invoke("a", "hi")
            run.agents.invoke("a", "hi")
        self.assertEqual(len({body["idempotency_key"] for _, body, _, _ in fake.seen}), 2)

    def test_fails(self):
        with calling() as (fake, run):
            fake.end = ("error", {"code": "quota", "message": "No credit."})
            with self.assertRaises(AgentFailed) as failed:
                run.agents.invoke("a", "hi")
            self.assertEqual((failed.exception.code, failed.exception.message), ("quota", "No credit."))
            fake.status = 409
            with self.assertRaises(AgentFailed) as refused:
                run.agents.invoke("a", "hi")
            self.assertEqual(refused.exception.code, "agent_call_loop")

    def test_gone(self):
        with calling() as (fake, run):
            fake.cuts = [1]
            fake.hang.set()
            threading.Timer(0.3, run.tool.abort).start()
            with self.assertRaises(Gone):
                run.agents.invoke("a", "hi")

    def test_transcript(self):
        with calling() as (fake, run):
            page = run.transcript(limit=5)
            self.assertEqual((page.messages[0]["content"], page.before), ("hi", "m7"))
            self.assertEqual(fake.seen, ["/v1/sessions/s1/messages?limit=5"])
            fake.status = 404
            with self.assertRaises(AqueductError):
                asyncio.run(run.atranscript(format="openai"))
            fake.status = 502
            with self.assertRaises(AqueductError) as page:
                run.transcript()
            self.assertEqual(page.exception.code, "http_502")

    def test_models(self):
        with calling() as (_, run):
            self.assertTrue(run.llm.base_url.endswith("/v1"))
            self.assertEqual(run.llm.api_key, "token-1")


if __name__ == "__main__":
    unittest.main()
