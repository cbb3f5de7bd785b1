"""How `answer = yield ask.permission(...)` waits without holding anything.

An agent that asks ends its answer, and nothing of it stays in memory: the person may take
days, and another process may serve the rest. When the answer is there, Aqueduct calls
/invoke again with the same run_id and `resume`, and the agent's function **runs again from
its top**. On that second way

 - a question that was answered gives its answer at once and is not asked again;
 - what is yielded before the newest answer is taken is not sent: people have seen it;
 - tools called through `run.tool` give what they gave before (see tools.py).

`resume` names the newest answers only. Earlier ones of the same Turn travel in the id of the
next question, which only Aqueduct keeps and gives back: nobody else sees it or can change it.

A call may also be lost while a tool waits for a person, because Aqueduct was restarted. Then `resume`
names that tool call by its key, and what is yielded before the function makes that call is not
sent. Answers that the lost call had are `repeated`.
"""

import base64
import json
import zlib
from collections import Counter
from typing import Dict, List, Optional, Set

from .ask import Answer, Ask
from .frames import Frame

#: Most bytes of earlier answers; a Turn that asks so much should keep its own notes.
MAX_CARRIED = 64 << 10


class Replay:
    """Answers known to one call, and which frames are old news."""

    def __init__(self, resume: list):
        self._fresh: Dict[str, Answer] = {}
        self._earlier: Dict[str, Answer] = {}
        self._calls: Set[str] = set()  # keys of the tool calls that waited when an earlier call was lost
        self._asked: Counter = Counter()
        self._held: List[Frame] = []
        for entry in resume:
            key, earlier = unpack(str(entry.get("id", "")))
            self._earlier.update(earlier)
            answers = self._earlier if entry.get("repeated") is True else self._fresh
            if isinstance(entry.get("idempotency_key"), str):
                self._calls.add(entry["idempotency_key"])
            else:
                answers[key] = Answer(key, str(entry.get("status", "")), entry.get("payload"))
        # For the newest answer to be taken, or for one of the calls to be made.
        self._waiting = bool(self._fresh or self._calls)

    def called(self, key: str) -> None:
        """The function calls a tool under that key."""
        if key in self._calls:
            self._caught_up()

    def answer(self, key: str) -> Optional[Answer]:
        """The answer to the question of that key, if there is one."""
        if key in self._fresh:
            self._caught_up()
            return self._fresh[key]
        return self._earlier.get(key)

    def _caught_up(self) -> None:
        self._waiting = False
        self._held.clear()

    def key(self, ask: Ask) -> str:
        """Tells questions apart that are alike: the second one is another one."""
        self._asked[ask.key] += 1
        n = self._asked[ask.key]
        return ask.key if n == 1 else f"{ask.key}.{n}"

    def id(self, key: str) -> str:
        """The id to ask under; it carries what was answered before."""
        return pack(key, {**self._earlier, **self._fresh})

    def pass_on(self, frame: Frame) -> List[Frame]:
        """What of a frame is to be sent now."""
        if self._waiting:
            self._held.append(frame)
            return []
        return [frame]

    def let_go(self) -> List[Frame]:
        """What was held back, for a function that took another way than before."""
        held, self._held, self._waiting = self._held, [], False
        return held


def pack(key: str, answers: Dict[str, Answer]) -> str:
    """A question's id that carries answers."""
    if not answers:
        return key
    raw = json.dumps([list(a) for a in answers.values()], separators=(",", ":")).encode()
    carried = base64.urlsafe_b64encode(zlib.compress(raw)).decode()
    if len(carried) > MAX_CARRIED:
        raise ValueError("the answers of this Turn are too large to be carried on")
    return key + "~" + carried


def unpack(id: str) -> tuple:
    """The key of an id of ours, and the answers it carries."""
    key, tilde, carried = id.partition("~")
    if not tilde:
        return key, {}
    raw = zlib.decompressobj().decompress(base64.urlsafe_b64decode(carried), 64 * MAX_CARRIED)
    return key, {a[0]: Answer(*a) for a in json.loads(raw)}
