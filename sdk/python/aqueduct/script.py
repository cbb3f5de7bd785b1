"""What an agent's function yields, turned into frames. No I/O, no clock."""

import logging
from typing import Any, List, NamedTuple

from . import frames
from .ask import Ask
from .errors import AqueductError
from .frames import Frame
from .run import Run

log = logging.getLogger("aqueduct")


class End(NamedTuple):
    """The function has returned."""

    value: Any


class Script:
    """Takes one item after the other; `ended` once there is nothing more to say."""

    def __init__(self, run: Run):
        self.run = run
        self.ended = False
        self.reply: Any = None  # what the yield that was just taken gives

    def take(self, item: Any) -> List[Frame]:
        """The frames to send for one item."""
        self.reply = None
        if isinstance(item, End):
            return self._end(item.value)
        if item is None:
            return []
        if isinstance(item, str):
            return self.run.replay.pass_on(frames.text(item)) if item else []
        if isinstance(item, Frame):
            return self.run.replay.pass_on(item)
        if isinstance(item, Ask):
            return self._ask([item], single=True)
        if isinstance(item, (list, tuple)) and item and all(isinstance(a, Ask) for a in item):
            return self._ask(list(item), single=False)
        raise TypeError(f"an agent cannot yield {type(item).__name__}")

    def fail(self, problem: BaseException) -> List[Frame]:
        """The end of a function that raised. What it says stays here unless it is meant for people."""
        self.ended = True
        if isinstance(problem, AqueductError):
            return [frames.error(problem.code, problem.message)]
        log.error("the agent failed in run %s", self.run.id, exc_info=problem)
        return [frames.error("agent_error", "The agent failed.")]

    def _ask(self, asks: List[Ask], single: bool) -> List[Frame]:
        """Answers what is answered. Is anything not, all that is not is asked and the call ends."""
        replay = self.run.replay
        keyed = [(replay.key(a), a) for a in asks]
        answers = [replay.answer(key) for key, _ in keyed]
        if None not in answers:
            self.reply = answers[0] if single else answers
            return []
        self.ended = True
        ids = [(replay.id(key), a) for (key, a), answer in zip(keyed, answers) if answer is None]
        out = replay.let_go() + [a.frame(id) for id, a in ids]
        return out + [frames.done(self.run.usage, pending=[id for id, _ in ids])]

    def _end(self, value: Any) -> List[Frame]:
        self.ended = True
        result = self.run.result if value is None else value
        return self.run.replay.let_go() + [frames.done(self.run.usage, result=result)]
