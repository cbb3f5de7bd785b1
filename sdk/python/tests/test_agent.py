"""The base for agents, called over real sockets."""

import asyncio
import logging
import socket
import threading
import time
import unittest

import context  # noqa: F401
from helper import PROMPT, frames as read_frames, invoke, post, words
from aqueduct import Agent, AgentError, Answer, ask, frames

RESUME = {"resume": [{"id": "ok", "status": "resolved", "payload": {"optionId": "once", "approved": True, "kind": "allow_once"}}]}


def raw_call(url, body=b'{"run_id":"r"}', version="1.1"):
    """A call on a bare socket."""
    host, port = url.removeprefix("http://").split(":")
    sock = socket.create_connection((host, int(port)), timeout=10)
    head = f"POST /invoke HTTP/{version}\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    sock.sendall(head.encode() + body)
    return sock


class Functions(unittest.TestCase):
    """Every kind of function is an agent."""

    def said(self, function, body=None):
        with Agent(function).running() as url:
            return invoke(url, body)

    def test_async_generator(self):
        async def answer(run):
            yield "a"
            await asyncio.sleep(0)
            yield frames.thought("b")
            run.used(output_tokens=2)
            run.used(output_tokens=3)

        self.assertEqual(self.said(answer), [("delta", {"text": "a"}), ("thought", {"text": "b"}), ("done", {"usage": {"output_tokens": 5}, "pending": []})])

    def test_generator_and_its_value(self):
        def answer(run):
            yield run.prompt
            return {"n": 1}

        self.assertEqual(self.said(answer), [("delta", {"text": "hi"}), ("done", {"usage": {}, "pending": [], "result": {"n": 1}})])

    def test_coroutine_function_text_list_and_nothing(self):
        async def coroutine(run):
            return "x"

        for function, said in ((coroutine, "x"), (lambda run: "x", "x"), (lambda run: ["x", None, "", "y"], "xy"), (lambda run: None, "")):
            got = self.said(function)
            self.assertEqual((words(got), got[-1][0]), (said, "done"))

    def test_function_that_picks_an_async_generator(self):
        async def inner(run):
            yield "one "
            answer = yield ask.permission("?", id="ok")
            yield str(answer.approved)

        self.assertEqual(words(self.said(lambda run: inner(run), PROMPT | RESUME)), "True")
        self.assertEqual([n for n, _ in self.said(lambda run: inner(run))], ["delta", "ask", "done"])

    def test_subclass(self):
        class Mine(Agent):
            async def answer(self, run):
                yield f"{run.id} {run.session_id} {run.aqueduct_session_id} {run.user_id} {run.traceparent}"

        body = {"context": {"user_id": "u"}, "session_id": "wrong", **PROMPT}
        with Mine().running() as url:
            got = invoke(url, body, {"x-run-id": "R", "X-Session-Id": "S%201", "X-Aqueduct-Session-Id": "A", "Traceparent": "00-1-2-01"})
        self.assertEqual(words(got), "R S 1 A u 00-1-2-01")

    def test_a_function_that_fails_says_no_more_than_it_means_to(self):
        def secret(run):
            yield "before"
            raise RuntimeError("password 1234")

        async def asecret(run):
            raise RuntimeError("password 1234")
            yield

        def meant(run):
            raise AgentError("no_model", "The model is away.")

        with self.assertLogs("aqueduct", logging.ERROR):
            got = [self.said(secret)[-1], self.said(asecret)[-1]]
        for last in got:
            self.assertEqual(last, ("error", {"code": "agent_error", "message": "The agent failed."}))
        self.assertEqual(self.said(meant), [("error", {"code": "no_model", "message": "The model is away."})])

    def test_what_cannot_be_yielded_or_written_is_an_error_frame(self):
        for item in (1, object(), [1], frames.custom("x", object()), frames.custom("x", float("nan"))):
            with self.assertLogs("aqueduct", logging.ERROR):
                self.assertEqual(self.said(lambda run: iter([item]))[-1][0], "error")

    def test_the_prompt_of_a_resumed_call(self):
        messages = [{"role": "user", "content": "old"}, {"role": "user", "content": [{"type": "text", "text": "new"}]}, {"role": "tool", "content": "x"}]
        got = self.said(lambda run: run.prompt, {"run_id": "r", "messages": messages, "input_message": {"role": "tool", "content": "x"}})
        self.assertEqual(words(got), "new")

    def test_bodies_of_odd_shapes(self):
        for body in ({}, {"messages": 1, "tools": {"a": 1}, "resume": "x", "context": [], "input_message": None, "run_id": 4}):
            self.assertEqual(self.said(lambda run: run.prompt, body)[-1][0], "done")


class Asking(unittest.TestCase):
    """`answer = yield ask…` over several calls."""

    def setUp(self):
        self.began = 0

        async def answer(run):
            self.began += 1
            yield "before. "
            first = yield ask.permission("first?", tool="t", args={"a": 1})
            yield f"first {first.approved}. "
            both = yield [ask.question("name?", {"type": "object"}), ask.client_tool("camera")]
            yield f"{both[0].value} {both[1].value}. "
            last = yield ask.permission("first?", tool="t", args={"a": 1})  # alike, and yet another one
            yield f"last {last.approved} {bool(last)} {last.option}"

        self.agent = Agent(answer)

    def test_one_question_after_the_other_without_any_memory(self):
        resume, said, asked = [], [], []
        yes = {"optionId": "once", "approved": True, "kind": "allow_once"}
        answers = [[yes], ["Ada", {"content": '{"photo": 1}'}], [{"optionId": "no", "approved": False, "kind": "reject_once"}]]
        while True:
            with self.agent.running() as url:  # a new process, as it were
                got = invoke(url, {**PROMPT, "resume": resume})
            said.append(words(got))
            ids = [data["id"] for name, data in got if name in ("ask", "call_client_tool")]
            self.assertEqual(got[-1][1].get("pending", []), ids)
            if not ids:
                break
            self.assertEqual(len(ids), len(set(ids)))
            asked += ids
            resume = [{"id": i, "status": "resolved", "payload": p} for i, p in zip(ids, answers.pop(0))]
        self.assertEqual(said, ["before. ", "first True. ", "Ada {'photo': 1}. ", "last False False no"])
        self.assertEqual(self.began, 4)
        self.assertEqual(len(asked), len(set(asked)))

    def test_what_a_client_tool_gave(self):
        for content, value in [('{"a": [1]}', {"a": [1]}), (' [1]', [1]), ("{no JSON", "{no JSON"), ("42", "42"), ("true", "true"), ("", "")]:
            self.assertEqual(Answer("q", "resolved", {"content": content}).value, value)
        self.assertEqual(Answer("q", "resolved", {"content": "a", "more": 1}).value, {"content": "a", "more": 1})

    def test_nobody_decided(self):
        with self.agent.running() as url:
            ids = invoke(url)[-1][1]["pending"]
            got = invoke(url, {**PROMPT, "resume": [{"id": ids[0], "status": "cancelled"}]})
        self.assertEqual(words(got), "first False. ")

    def test_a_function_that_takes_another_way_loses_no_words(self):
        with Agent(lambda run: ["new ", "words"]).running() as url:
            self.assertEqual(words(invoke(url, {**PROMPT, **RESUME})), "new words")

    def test_two_steps(self):
        def answer(run):
            known = run.answer("ok")
            if known is None:
                return ["May I? ", ask.permission("?", id="ok")]
            return [f"approved: {known.approved}"]

        with Agent(answer).running() as url:
            self.assertEqual([n for n, _ in invoke(url)], ["delta", "ask", "done"])
            self.assertEqual(words(invoke(url, {**PROMPT, **RESUME})), "approved: True")

    def test_only_a_yes_is_true(self):
        for payload, yes in (({"approved": True}, True), ({"approved": "true"}, False), ({"approved": 1}, False), ({}, False), (None, False), ("yes", False)):
            self.assertEqual(ask.Answer("q", "resolved", payload).approved, yes, payload)
        self.assertFalse(ask.Answer("q", "cancelled", {"approved": True}).approved)
        self.assertFalse(ask.Answer("q", "resolved", {"approved": False}))

    def test_the_generator_is_closed_when_it_asks(self):
        closed = threading.Event()

        def answer(run):
            try:
                yield ask.permission("?")
            finally:
                closed.set()

        with Agent(answer).running() as url:
            invoke(url)
            self.assertTrue(closed.wait(5))


class Wire(unittest.TestCase):
    """HTTP: limits, pace, leaving."""

    def test_each_frame_leaves_at_once(self):
        go = threading.Event()

        def answer(run):
            yield "first"
            go.wait(10)
            yield "second"

        with Agent(answer).running() as url, raw_call(url) as sock:
            got = b""
            while b"first" not in got:
                got += sock.recv(4096)
            self.assertNotIn(b"second", got)
            go.set()
            while part := sock.recv(4096):
                got += part
            self.assertTrue(got.endswith(b"0\r\n\r\n"))

    def test_headers_before_the_first_frame_and_comments_in_silence(self):
        go = threading.Event()

        def answer(run):
            go.wait(10)
            yield "x"

        with Agent(answer, heartbeat=0.05).running() as url, raw_call(url) as sock:
            got = b""
            while got.count(b": alive") < 2:
                got += sock.recv(4096)
            self.assertIn(b"text/event-stream", got)
            go.set()

    def test_an_old_client_gets_no_chunks(self):
        with Agent(lambda run: "x").running() as url, raw_call(url, version="1.0") as sock:
            got = b""
            while part := sock.recv(4096):
                got += part
        self.assertEqual([n for n, _ in read_frames(got.partition(b"\r\n\r\n")[2])], ["delta", "done"])

    def leave(self, answer, closed):
        with Agent(answer).running() as url:
            with raw_call(url) as sock:
                sock.recv(4096)
                while not self.begun.wait(5):
                    self.fail("never began")
            self.assertTrue(closed.wait(5), "the generator was not closed")

    def test_client_gone_closes_an_async_generator_that_waits(self):
        self.begun, closed = threading.Event(), threading.Event()

        async def answer(run):
            try:
                yield "x"
                self.begun.set()
                await asyncio.sleep(60)
            finally:
                closed.set()

        self.leave(answer, closed)

    def test_client_gone_closes_a_generator_at_its_next_yield(self):
        self.begun, closed = threading.Event(), threading.Event()

        def answer(run):
            try:
                while True:
                    yield "x"
                    self.begun.set()
                    time.sleep(0.01)
            finally:
                closed.set()

        self.leave(answer, closed)

    def test_client_gone_ends_a_tool_call_that_waits(self):
        from faketools import faked

        with faked() as (fake, base):
            for kind in ("sync", "async"):
                closed = threading.Event()

                def answer(run):
                    try:
                        yield run.tool.invoke("slow")
                    finally:
                        closed.set()

                async def aanswer(run):
                    try:
                        yield await run.tool.ainvoke("slow")
                    finally:
                        closed.set()

                headers = f"x-aqueduct-base-url: {base}\r\nx-aqueduct-run-token: token-1\r\n"
                with Agent(answer if kind == "sync" else aanswer).running() as url:
                    host, port = url.removeprefix("http://").split(":")
                    before = len(fake.seen)
                    with socket.create_connection((host, int(port)), timeout=10) as sock:
                        body = b'{"run_id":"turn-1"}'
                        head = f"POST /invoke HTTP/1.1\r\nHost: x\r\n{headers}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                        sock.sendall(head.encode() + body)
                        until = time.monotonic() + 5
                        while len(fake.seen) < before + 2 and time.monotonic() < until:  # invoke and wait
                            time.sleep(0.01)
                    self.assertTrue(closed.wait(5), kind)

    def test_what_is_no_call_is_refused(self):
        json_type = {"Content-Type": "application/json"}
        cases = [
            (b"{}", {"Content-Type": "text/plain"}, 415),
            (b"{", json_type, 400),
            (b"[]", json_type, 400),
            (b"\xff", json_type, 400),
            (b'"' + b"x" * 2000 + b'"', json_type, 413),
            (b"{}", json_type | {"Origin": "http://evil.example"}, 403),
        ]
        with Agent(lambda run: "x", max_body=1000).running() as url:
            for body, headers, status in cases:
                self.assertEqual(post(url + "/invoke", body, headers)[0], status, body[:20])
            self.assertEqual(post(url + "/other", {})[0], 404)
            with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=5) as sock:
                sock.sendall(b"POST /invoke HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
                self.assertIn(b" 411 ", sock.recv(4096).splitlines()[0] + b" ")
        with Agent(lambda run: "x").running() as url:
            self.assertEqual(post(url + "/invoke", b"[" * 100000)[0], 400)

    def test_no_more_answers_at_a_time_than_allowed(self):
        go, begun = threading.Event(), threading.Event()

        def answer(run):
            begun.set()
            go.wait(10)
            return "x"

        with Agent(answer, max_calls=1).running() as url:
            with raw_call(url):
                begun.wait(5)
                self.assertEqual(post(url + "/invoke", PROMPT)[0], 503)
                go.set()

    def test_answers_under_way_are_finished_at_the_end(self):
        begun, got = threading.Event(), []

        def answer(run):
            begun.set()
            time.sleep(0.3)
            return "whole"

        agent = Agent(answer)
        with agent.running(drain=5) as url:
            caller = threading.Thread(target=lambda: got.append(words(invoke(url))))
            caller.start()
            begun.wait(5)
        caller.join(5)
        self.assertEqual(got, ["whole"])

    def test_health(self):
        import urllib.request

        with Agent(lambda run: "x").running() as url:
            with urllib.request.urlopen(url + "/health", timeout=5) as answer:
                self.assertEqual(answer.status, 200)

    def test_many_at_a_time(self):
        async def answer(run):
            for _ in range(20):
                await asyncio.sleep(0.001)
                yield "x"

        with Agent(answer).running() as url:
            got = []
            threads = [threading.Thread(target=lambda: got.append(words(invoke(url)))) for _ in range(30)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
        self.assertEqual(got, ["x" * 20] * 30)


if __name__ == "__main__":
    unittest.main()
