"""A stand-in for Aqueduct's tool routes: one ToolCall per idempotency key, and people who decide."""

import threading
import time
from contextlib import contextmanager
from urllib.parse import parse_qs, unquote, urlsplit

from helper import serving


class FakeTools:
    """Every call waits for decide(), but for the tool "quick"."""

    def __init__(self, token="token-1", run_id="turn-1"):
        self.token, self.run_id = token, run_id
        self.changed = threading.Condition()
        self.calls = {}  # id: state
        self.keys = {}  # key: id
        self.executed = []  # names and arguments, as often as they were run
        self.seen = []  # requests
        self.raw = []  # their targets as they came
        self.trouble = []  # what to do instead of answering: "before", "after" or a status

    def handle(self, h, body):
        trouble = self.trouble.pop(0) if self.trouble else None
        url = urlsplit(h.path)
        self.raw.append(h.path)
        self.seen.append((unquote(url.path), body))
        if trouble == "before":
            return h.hang_up()
        if isinstance(trouble, int):
            return h.say(trouble, {"code": "storage_unavailable", "detail": "Try again."})
        if h.headers.get("Authorization") != "Bearer " + self.token:
            return h.say(401, {"code": "unauthorized", "detail": "The run token is not good."})
        path, _, verb = unquote(url.path).rpartition(":")
        name = path.rpartition("/")[2]
        if verb == "invoke":
            answer = self.invoke(name, body)
        else:
            answer = self.wait(name, int(parse_qs(url.query)["timeout_ms"][0]) / 1000)
        if trouble == "after":
            return h.hang_up()
        h.say(200, answer)

    def invoke(self, name, body):
        if body["run_id"] != self.run_id:
            return {"status": "failed", "error": {"code": "foreign_run", "message": "Not your Turn."}}
        if name == "unknown":
            return {"status": "failed", "error": {"code": "tool_unknown", "message": "No such tool."}}
        with self.changed:
            id = self.keys.get(body["idempotency_key"])
            if id is None:
                id = self.keys[body["idempotency_key"]] = f"call-{len(self.calls) + 1}"
                self.calls[id] = {"status": "pending", "name": name, "args": body["args"]}
                if name == "quick":
                    self._settle(id, True)
                self.changed.notify_all()
            return self.told(id)

    def wait(self, id, timeout):
        until = time.monotonic() + timeout
        with self.changed:
            while self.calls[id]["status"] == "pending" and self.changed.wait(until - time.monotonic()):
                pass
            return self.told(id)

    def told(self, id):
        call = self.calls[id]
        out = {"status": call["status"], "tool_call_id": id}
        return out | {k: call[k] for k in ("result", "error") if k in call}

    def decide(self, approve=True):
        """Waits for the oldest open call and decides."""
        with self.changed:
            while not (open := [i for i, c in self.calls.items() if c["status"] == "pending"]):
                if not self.changed.wait(10):
                    raise TimeoutError("no call came")
            self._settle(open[0], approve)
            self.changed.notify_all()

    def _settle(self, id, approve):
        call = self.calls[id]
        if approve:
            self.executed.append((call["name"], call["args"]))
            call.update(status="succeeded", result={"receipt": f"r-{len(self.executed)}"})
        else:
            call.update(status="failed", error={"code": "rejected", "message": "A person said no."})


@contextmanager
def faked():
    """The stand-in, and its address."""
    fake = FakeTools()
    with serving(fake.handle) as url:
        yield fake, url
