"""Frames out, events in."""

import json
import unittest

import context  # noqa: F401
from aqueduct import frames, sse


class Encode(unittest.TestCase):
    def test_one_line_whatever_the_text(self):
        for text in ("a", "a\nb\r\nc\r", "\u2028\u2029", "世界 \U0001f600", '"\\', "\x00\x1b", "data: x\n\nevent: done"):
            raw = frames.encode(frames.text(text))
            self.assertEqual(raw.count(b"\n"), 3)
            self.assertNotIn(b"\r", raw)
            (event,) = sse.Parser().feed(raw)
            self.assertEqual((event.name, json.loads(event.data)), ("delta", {"text": text}))

    def test_half_a_pair_is_no_broken_utf8(self):
        frames.encode(frames.text("\ud83d")).decode("utf-8")

    def test_what_json_has_not_is_refused(self):
        for bad in (float("nan"), float("inf"), object(), {1, 2}):
            with self.assertRaises((TypeError, ValueError)):
                frames.encode(frames.custom("x", bad))

    def test_every_frame_is_what_the_protocol_says(self):
        cases = [
            (frames.thought("t"), "thought", {"text": "t"}),
            (frames.state("s", {"a": 1}), "state", {"state": "s", "detail": {"a": 1}}),
            (frames.state("s"), "state", {"state": "s"}),
            (frames.step("s", "started"), "step", {"name": "s", "status": "started"}),
            (frames.tool_call("1", "n"), "tool_call", {"id": "1", "name": "n", "args": {}}),
            (frames.tool_result("1", [2]), "tool_result", {"id": "1", "content": [2]}),
            (frames.state_snapshot({}), "state_snapshot", {"snapshot": {}}),
            (frames.state_delta([]), "state_delta", {"delta": []}),
            (frames.activity("1", "t", {"a": 1}), "activity", {"id": "1", "type": "t", "content": {"a": 1}}),
            (frames.activity("1", "t", patch=[]), "activity", {"id": "1", "type": "t", "patch": []}),
            (frames.custom("n"), "custom", {"name": "n", "value": None}),
            (frames.done(), "done", {"usage": {}, "pending": []}),
            (frames.done({"total_tokens": 1}, ["q"], 7), "done", {"usage": {"total_tokens": 1}, "pending": ["q"], "result": 7}),
            (frames.error("c", "m"), "error", {"code": "c", "message": "m"}),
        ]
        for frame, name, data in cases:
            self.assertEqual((frame.name, frame.data), (name, data))


STREAM = "\ufeff: hello\r\nid: 7\rdata: {\"a\":1}\n\nevent: x\ndata:one\r\ndata: two\r\n\r\nid\ndata\n\nevent: lost\n\ndata: cut".encode()
EVENTS = [("message", '{"a":1}', "7"), ("x", "one\ntwo", "7"), ("message", "", "")]


class Parse(unittest.TestCase):
    def test_by_the_letter_in_pieces_of_every_size(self):
        for size in (1, 2, 3, 5, 7, len(STREAM)):
            parser = sse.Parser()
            got = [e for i in range(0, len(STREAM), size) for e in parser.feed(STREAM[i : i + size])]
            self.assertEqual([tuple(e) for e in got], EVENTS, size)

    def test_a_line_without_end_is_refused(self):
        parser = sse.Parser(limit=1000)
        with self.assertRaises(ValueError):
            for _ in range(100):
                list(parser.feed(b"data: " + b"x" * 50))

    def test_many_small_events_are_not_too_large(self):
        parser = sse.Parser(limit=1000)
        self.assertEqual(len(list(parser.feed(b": c\n\ndata: xxxxxxxxxx\n\n" * 1000))), 1000)


if __name__ == "__main__":
    unittest.main()
