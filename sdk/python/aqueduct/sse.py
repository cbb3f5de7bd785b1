"""Reads Server-Sent Events as the HTML standard says, from bytes in any pieces."""

import codecs
from typing import Iterator, List, NamedTuple


class Event(NamedTuple):
    """One event. `id` is the newest id of the stream, as the standard wants it."""

    name: str
    data: str
    id: str


class Parser:
    """Takes bytes, gives the events that are complete. A last event cut off never was."""

    def __init__(self, limit: int = 64 << 20) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._rest: List[str] = []  # pieces of a line that has not ended
        self._size, self._limit = 0, limit
        self._begun = self._after_cr = False
        self._name, self._data, self.last_id = "", [], ""  # type: ignore[var-annotated]

    def feed(self, raw: bytes) -> Iterator[Event]:
        """Events that end in these bytes."""
        for line in self._lines(self._decode(raw)):
            if line:
                self._field(line)
            elif self._data:
                yield Event(self._name or "message", "\n".join(self._data), self.last_id)
                self._name, self._data, self._size = "", [], 0
            else:
                self._name, self._size = "", 0

    def _lines(self, text: str) -> Iterator[str]:
        """LF, CRLF or CR end a line; a CR at the end of a piece may be half of a CRLF."""
        if not text:
            return
        if not self._begun:
            self._begun, text = True, text.removeprefix("\ufeff")
        if self._after_cr and text.startswith("\n"):
            text = text[1:]
        self._after_cr = text.endswith("\r")
        *whole, rest = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for line in whole:
            yield "".join(self._rest) + line
            self._rest.clear()
        if rest:
            self._grow(len(rest))
            self._rest.append(rest)

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._grow(len(value))
            self._data.append(value)
        elif name == "event":
            self._name = value
        elif name == "id" and "\0" not in value:
            self.last_id = value

    def _grow(self, n: int) -> None:
        self._size += n
        if self._size > self._limit:
            raise ValueError("an event that is too large")
