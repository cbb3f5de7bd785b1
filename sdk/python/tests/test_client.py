"""The callers' side, against a server that cuts its streams."""

import asyncio
import json
import os
import tempfile
import threading
import unittest
from unittest import mock

import context  # noqa: F401
from helper import collect, gather, serving
from aqueduct import ChatError, Client, tailing, token
from aqueduct.events import Approval, Question, Settled, ToolCall, ToolResult

ASKED = {"tool": "payments.transfer", "title": "Transfer?", "args": {"amount": 10}, "options": [{"id": "once"}], "risk": "high", "expires_at": "soon"}


def run(id, *events, outcome=None):
    return [{"type": "RUN_STARTED", "runId": id}, *events, {"type": "RUN_FINISHED", "runId": id, "outcome": outcome or {"type": "success"}}]


def text(words):
    return {"type": "TEXT_MESSAGE_CONTENT", "delta": words}


def tool(id, name, args):
    raw = json.dumps(args)
    return [
        {"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": name},
        {"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": raw[:3]},
        {"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": raw[3:]},
        {"type": "TOOL_CALL_END", "toolCallId": id},
    ]


QUESTION = run("r1", text("May I? "), *tool("q1", "request_permission", ASKED), outcome={"type": "interrupt", "interrupts": [{"id": "q1", "reason": "tool_call"}]})
AFTER = run("r2", {"type": "TOOL_CALL_RESULT", "toolCallId": "q1", "content": "{}"}, text("Done."))


class Log:
    """A server that keeps a log, sends what it is asked for, and cuts after so many events."""

    def __init__(self, events, cut=0, problems=()):
        self.events, self.cut, self.seen, self.problems = events, cut, [], list(problems)
        self.decided = threading.Event()
        self.decided.set()

    def handle(self, h, body):
        after = int(h.headers.get("Last-Event-ID") or 0)
        self.seen.append((h.command, h.path, after, body))
        if self.problems:
            return h.say(*self.problems.pop(0))
        if h.path.startswith("/api/approvals/"):
            self.decided.set()
            return h.say(200, {"approval_id": h.path.split("/")[3], "status": "APPROVED"})
        h.send_response(200)
        h.send_header("Content-Type", "text/event-stream")
        h.send_header("Transfer-Encoding", "chunked")
        h.end_headers()
        sent = 0
        for n, event in enumerate(self.events[after:], after + 1):
            if n > len(QUESTION):
                self.decided.wait(5)
            raw = f": hi\n\nid: {n}\ndata: {json.dumps(event)}\n\n".encode()
            if self.cut and sent == self.cut:
                h.wfile.write(b"%x\r\n%b" % (len(raw), raw[: len(raw) // 2]))
                return h.hang_up()
            h.wfile.write(b"%x\r\n%b\r\n" % (len(raw), raw))
            h.wfile.flush()
            sent += 1
        h.wfile.write(b"0\r\n\r\n")


class Chat(unittest.TestCase):
    def chat(self, log, **options):
        with serving(log.handle) as url:
            return collect(Client(url, token="t", agent="a").chat("hello", "s 1", **options))

    def test_words(self):
        log = Log(run("r1", text("a"), text("b\n"), text("世界")))
        self.assertEqual(self.chat(log), ["a", "b\n", "世界"])
        method, path, _, body = log.seen[0]
        self.assertEqual((method, path), ("POST", "/api/agui/chat?follow=1&agent=a"))
        self.assertEqual((body["threadId"], body["protocolVersion"], body["messages"][0]["content"]), ("s 1", "1.0", "hello"))
        self.assertEqual(body["forwardedProps"], {"enable_tools": True})

    def test_tools_and_questions_as_objects(self):
        log = Log(run("r0", *tool("t1", "search", {"q": 1}))[:-1] + QUESTION + AFTER)
        got = self.chat(log)
        self.assertEqual(got[0], ToolCall("t1", "search", {"q": 1}))
        self.assertEqual(got[1], "May I? ")
        self.assertEqual(got[2], Approval("q1", "Transfer?", "payments.transfer", {"amount": 10}, [{"id": "once"}], "high", "soon"))
        self.assertEqual(got[3:], [ToolResult("q1", "{}"), "Done."])
        self.assertTrue(all(isinstance(str(g), str) for g in got))

    def test_words_alone_without_tools(self):
        log = Log(QUESTION + AFTER)
        self.assertEqual(self.chat(log, enable_tools=False), ["May I? ", "Done."])
        self.assertEqual(log.seen[0][3]["forwardedProps"], {"enable_tools": False})

    def test_an_input(self):
        asked = {"id": "q1", "reason": "input_required", "message": "Name?", "responseSchema": {"type": "string"}, "expiresAt": "soon"}
        log = Log(run("r1", *tool("q1", "ask_user", {}), outcome={"type": "interrupt", "interrupts": [asked]}))
        self.assertEqual(self.chat(log, follow=False), [ToolCall("q1", "ask_user", {}), Question("q1", "Name?", {"type": "string"}, "soon")])

    def test_cut_anywhere_nothing_is_lost_or_repeated(self):
        whole = self.chat(Log(QUESTION + AFTER))
        with mock.patch("asyncio.sleep", new=quick):
            for cut in range(1, len(QUESTION + AFTER)):
                log = Log(QUESTION + AFTER, cut)
                self.assertEqual(self.chat(log), whole, cut)
                for method, path, after, _ in log.seen[1:]:
                    where = "/api/threads/s%201/events" if after == len(QUESTION) else "/api/runs/r1/events" if after < len(QUESTION) else "/api/runs/"
                    self.assertEqual(method, "GET")
                    self.assertTrue(path.startswith(where), (path, after))

    def test_a_refused_connection_posts_the_same_again(self):
        log = Log(run("r1", text("a")), problems=[(503, {"code": "shutting_down"}), (502, b"")])
        self.assertEqual(self.chat(log), ["a"])
        self.assertEqual(len(log.seen), 3)
        self.assertEqual(log.seen[0][3], log.seen[2][3])

    def test_follow_0_ends_at_the_question(self):
        self.assertEqual(self.chat(Log(QUESTION), follow=False)[-1].id, "q1")

    def test_the_loop_approves_and_hears_the_rest(self):
        log = Log(QUESTION + AFTER)
        log.decided.clear()

        async def go(url):
            client, said = Client(url), []
            async for chunk in client.chat("x", "s"):
                if isinstance(chunk, Approval):
                    said.append((await client.approve(chunk.id, reason="ok"))["status"])
                else:
                    said.append(chunk)
            return said

        with serving(log.handle) as url:
            self.assertEqual(asyncio.run(go(url)), ["May I? ", "APPROVED", ToolResult("q1", "{}"), "Done."])
        self.assertEqual(log.seen[1][3], {"approved": True, "reason": "ok"})

    def test_errors(self):
        with self.assertRaises(ChatError) as no:
            self.chat(Log([{"type": "RUN_STARTED"}, {"type": "RUN_ERROR", "code": "c", "message": "m"}]))
        self.assertEqual((no.exception.code, no.exception.message), ("c", "m"))
        log = Log([], problems=[(409, {"code": "run_in_progress", "detail": "Wait."})])
        with self.assertRaises(ChatError) as no:
            self.chat(log)
        self.assertEqual((no.exception.code, no.exception.status), ("run_in_progress", 409))
        self.assertEqual(len(log.seen), 1)

    def test_a_message_that_is_not_taken(self):
        events = run("r1", {"type": "CUSTOM", "name": "message_not_taken", "value": {"ids": ["m"]}}, outcome={"type": "interrupt", "interrupts": [{"id": "q9"}]})
        with self.assertRaises(ChatError) as no:
            self.chat(Log(events))
        self.assertEqual(no.exception.problem["interrupts"], [{"id": "q9"}])

    def test_settled_elsewhere(self):
        events = run("r1", {"type": "CUSTOM", "name": "question_settled", "value": {"id": "q1", "status": "approved"}})
        self.assertEqual(self.chat(Log(events)), [Settled("q1", "approved")])

    def test_a_server_that_stays_away(self):
        with mock.patch.object(tailing, "PATIENCE", 0.2), self.assertRaises(ConnectionError):
            collect(Client("http://127.0.0.1:9").chat("x", "s"))

    def test_leaving_early_closes_the_connection(self):
        log = Log(QUESTION + AFTER)
        log.decided.clear()

        async def go(url):
            chunks = Client(url).chat("x", "s")
            async for _ in chunks:
                break
            await chunks.aclose()

        with serving(log.handle) as url:
            asyncio.run(asyncio.wait_for(go(url), 5))
            log.decided.set()


class Decide(unittest.TestCase):
    def test_a_chat_that_has_not_begun_asks_nothing(self):
        with serving(lambda h, body: h.say(404, {"code": "not_found"})) as url:
            self.assertEqual(asyncio.run(Client(url).approvals("s")), [])

    def test_bodies_and_problems(self):
        seen = []

        def handle(h, body):
            seen.append((h.command, h.path, body))
            if len(seen) == 5:
                return h.say(409, {"code": "already_decided", "detail": "Decided.", "approval": {"status": "REJECTED"}})
            h.say(200, {"approvals": [], "lastRun": {"id": "r/1"}})

        async def go(url):
            client = Client(url)
            await client.approve("a/b")
            await client.approve("a", "always")
            await client.reject("a", "no")
            await client.answer("a", {"x": 1})
            with self.assertRaises(ChatError) as no:
                await client.reject("a")
            self.assertEqual((no.exception.code, no.exception.problem["approval"]["status"]), ("already_decided", "REJECTED"))
            self.assertEqual(await client.approvals("s 1"), [])
            await client.tool_result("t", [1])
            await client.cancel("s 1")

        with serving(handle) as url:
            asyncio.run(go(url))
        self.assertEqual([s[1] for s in seen], [
            "/api/approvals/a%2Fb/decision", "/api/approvals/a/decision", "/api/approvals/a/decision", "/api/approvals/a/decision",
            "/api/approvals/a/decision", "/api/approvals?thread_id=s+1&status=PENDING", "/api/tool_calls/t/result", "/api/threads/s%201", "/api/runs/r%2F1/cancel",
        ])
        self.assertEqual([s[2] for s in seen[:4]], [{"approved": True}, {"option_id": "always"}, {"approved": False, "reason": "no"}, {"payload": {"x": 1}}])


class Together(unittest.TestCase):
    def test_two_chats_at_a_time(self):
        async def go(url):
            client = Client(url)
            return await asyncio.gather(*(gather(client.chat("x", f"s{n}")) for n in range(10)))

        with serving(Log(run("r1", text("a"))).handle) as url:
            self.assertEqual(asyncio.run(go(url)), [["a"]] * 10)


_sleep = asyncio.sleep


async def quick(_):
    await _sleep(0)


class Tokens(unittest.TestCase):
    """Whose token is shown to which server."""

    def test_where_it_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "state"))
            for name in ("state/token", "other"):
                with open(os.path.join(folder, name), "w") as file:
                    file.write(f"in {name}\n")
            here = os.getcwd()
            os.chdir(folder)
            try:
                for env, url, want in (
                    ({"AQUEDUCT_STATE": "state"}, "http://127.0.0.1:8080", "in state/token"),
                    ({"STATE_DIRECTORY": "state:other"}, "http://localhost:8080", "in state/token"),
                    ({"AQUEDUCT_STATE": "state"}, "https://aqueduct.example", ""),  # this machine's token is nobody else's
                    ({"AQUEDUCT_TOKEN_FILE": "other"}, "https://aqueduct.example", "in other"),
                    ({"AQUEDUCT_TOKEN": "given", "AQUEDUCT_TOKEN_FILE": "other"}, "http://127.0.0.1:8080", "given"),
                ):
                    with mock.patch.dict(os.environ, env, clear=True):
                        self.assertEqual(token.find(url), want, (env, url))
            finally:
                os.chdir(here)


if __name__ == "__main__":
    unittest.main()
