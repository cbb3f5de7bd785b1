"""Tool calls that look synchronous, against a stand-in for the server that misbehaves."""

import asyncio
import threading
import time
import unittest
from unittest import mock

import context  # noqa: F401
from faketools import faked
from helper import invoke, serving, words
from aqueduct import Agent, ToolFailed, ToolPending, toolcall
from aqueduct.tools import Tools

TOKEN = {"x-aqueduct-run-token": "token-1", "x-run-id": "turn-1"}


class Both(unittest.TestCase):
    """Each test runs with invoke() and with ainvoke()."""

    def each(self):
        for kind in ("invoke", "ainvoke"):
            with self.subTest(kind), faked() as (fake, url):
                tools = Tools(url, "token-1", "turn-1", "00-a-b-01")
                if kind == "invoke":
                    yield fake, tools.invoke
                else:
                    yield fake, lambda *a, **k: asyncio.run(tools.ainvoke(*a, **k))

    def test_a_result_at_once(self):
        for fake, call in self.each():
            self.assertEqual(call("quick", {"a": 1}), {"receipt": "r-1"})
            self.assertEqual(len(fake.seen), 1)
            path, body = fake.seen[0]
            self.assertEqual(path, "/v1/tools/quick:invoke")
            self.assertEqual((body["run_id"], body["args"]), ("turn-1", {"a": 1}))

    def test_a_result_when_somebody_decided(self):
        for fake, call in self.each():
            threading.Timer(0.1, fake.decide).start()
            self.assertEqual(call("payments.transfer", {"amount": 10}), {"receipt": "r-1"})
            self.assertEqual(fake.seen[1][0], "/v1/tool_calls/call-1:wait")

    def test_rejected(self):
        for fake, call in self.each():
            threading.Timer(0.05, fake.decide, (False,)).start()
            with self.assertRaises(ToolFailed) as no:
                call("payments.transfer")
            self.assertEqual((no.exception.code, no.exception.message, no.exception.tool_call_id), ("rejected", "A person said no.", "call-1"))
            self.assertEqual(fake.executed, [])

    def test_refused(self):
        for fake, call in self.each():
            for name, token, code in (("unknown", "token-1", "tool_unknown"), ("quick", "other", "unauthorized")):
                fake.token, before = token, len(fake.seen)
                with self.assertRaises(ToolFailed) as no:
                    call(name)
                self.assertEqual(no.exception.code, code)
                self.assertEqual(len(fake.seen), before + 1, "a refusal is not tried again")
                fake.token = "token-1"

    def test_broken_connections_never_double_a_call(self):
        for fake, call in self.each():
            fake.trouble = ["before", "after", 503, "after", None, "before", 502]
            threading.Timer(1.5, fake.decide).start()
            self.assertEqual(call("payments.transfer", {"amount": 10}), {"receipt": "r-1"})
            self.assertEqual(len(fake.executed), 1)
            keys = {body["idempotency_key"] for path, body in fake.seen if path.endswith(":invoke")}
            self.assertEqual(len(keys), 1)

    def test_a_quick_tool_whose_answer_is_lost_runs_once(self):
        for fake, call in self.each():
            fake.trouble = ["after"]
            self.assertEqual(call("quick"), {"receipt": "r-1"})
            self.assertEqual(len(fake.executed), 1)

    def test_a_server_that_stays_away(self):
        with mock.patch.object(toolcall, "PATIENCE", 0.3):
            for kind in ("invoke", "ainvoke"):
                tools = Tools("http://127.0.0.1:9", "t", "r")
                with self.assertRaises(ToolFailed) as no:
                    tools.invoke("x") if kind == "invoke" else asyncio.run(tools.ainvoke("x"))
                self.assertEqual(no.exception.code, "unreachable")

    def test_times(self):
        for fake, call in self.each():
            began = time.monotonic()
            with self.assertRaises(ToolPending) as no:
                call("slow", timeout=2.5, wait=0.2)
            self.assertEqual(no.exception.tool_call_id, "call-1")
            self.assertLess(time.monotonic() - began, 5)
            self.assertEqual(fake.seen[0][1]["timeout_ms"], 2500)

    def test_keys_of_ones_own(self):
        for fake, call in self.each():
            self.assertEqual(call("quick", idempotency_key="mine"), call("quick", idempotency_key="mine"))
            self.assertEqual(len(fake.executed), 1)

    def test_the_same_call_twice_is_two_calls(self):
        for fake, call in self.each():
            self.assertEqual([call("quick")["receipt"], call("quick")["receipt"]], ["r-1", "r-2"])

    def test_names_and_ids_cannot_leave_their_place(self):
        for fake, call in self.each():
            with self.assertRaises(ToolPending):
                call("../../admin?x#y", wait=0.1)
            self.assertEqual(fake.raw[0], "/v1/tools/..%2F..%2Fadmin%3Fx%23y:invoke")


class Odd(unittest.TestCase):
    def answers(self, *answers):
        left = list(answers)
        return serving(lambda h, body: h.say(*left.pop(0)))

    def test_answers_that_cannot_be_read(self):
        for status, body in ((200, b"no json"), (200, []), (200, {}), (200, {"status": "pending"}), (404, b"<html>"), (200, {"status": "blocked"})):
            with self.answers((status, body)) as url, self.assertRaises(ToolFailed):
                Tools(url, "t", "r").invoke("x")

    def test_only_succeeded_gives_a_result(self):
        with self.answers((200, {"status": "failed", "result": 1, "tool_call_id": "c"})) as url, self.assertRaises(ToolFailed):
            Tools(url, "t", "r").invoke("x")

    def test_a_server_that_does_not_wait_is_not_hammered(self):
        asked = []

        def handle(h, body):
            asked.append(h.path)
            h.say(200, {"status": "pending", "tool_call_id": "c"})

        with serving(handle) as url, self.assertRaises(ToolPending):
            Tools(url, "t", "r").invoke("x", wait=1.0)
        self.assertLess(len(asked), 12)

    def test_a_name_that_is_no_address(self):
        for base in ("", "file:///etc", "ftp://x"):
            with self.assertRaises(ValueError):
                Tools(base, "t", "r").invoke("x")


class InAnAgent(unittest.TestCase):
    """The whole way: an agent is called, calls a tool, a person decides."""

    def test_agent_whose_tool_needs_approval(self):
        for approve, said in ((True, "I ask. receipt r-1"), (False, "I ask. A person said no.")):
            def answer(run):
                yield "I ask. "
                try:
                    yield "receipt " + run.tool.invoke("payments.transfer", {"amount": 10})["receipt"]
                except ToolFailed as no:
                    yield no.message

            with faked() as (fake, base), Agent(answer).running() as url:
                threading.Timer(0.1, fake.decide, (approve,)).start()
                self.assertEqual(words(invoke(url, headers={"x-aqueduct-base-url": base, **TOKEN})), said)

    def test_a_failure_nobody_catches_is_the_answers_end(self):
        with faked() as (_, base), Agent(lambda run: run.tool.invoke("unknown")).running() as url:
            got = invoke(url, headers={"x-aqueduct-base-url": base, **TOKEN})
        self.assertEqual(got, [("error", {"code": "tool_unknown", "message": "No such tool."})])

    def test_a_function_that_runs_again_does_nothing_twice(self):
        from aqueduct import ask

        async def answer(run):
            receipt = await run.tool.ainvoke("quick", {"a": 1})
            yes = yield ask.permission("Tell?", id="ok")
            yield f"{receipt['receipt']} {yes.approved}"

        with faked() as (fake, base), Agent(answer, base_url=base).running() as url:
            invoke(url, headers=TOKEN)
            body = {"run_id": "turn-1", "resume": [{"id": "ok", "status": "resolved", "payload": {"approved": True}}]}
            self.assertEqual(words(invoke(url, body, TOKEN)), "r-1 True")
            self.assertEqual(len(fake.executed), 1)


if __name__ == "__main__":
    unittest.main()
