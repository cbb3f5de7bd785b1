"""Writes one answer to a socket while watching whether anybody still reads."""

import logging
import selectors
import socket
import time
from concurrent.futures import Future
from typing import Any, Callable, List

from .errors import Gone
from .frames import Frame, encode
from .run import Run
from .script import Script
from .steps import Loop, begin

log = logging.getLogger("aqueduct")


class Outlet:
    """One answer's way out. Each frame is sent as soon as it is there."""

    def __init__(self, sock: socket.socket, chunked: bool, heartbeat: float):
        self._sock, self._chunked, self._heartbeat = sock, chunked, heartbeat
        self._bell, self._ring = socket.socketpair()
        self._bell.setblocking(False)
        self._watch = selectors.DefaultSelector()
        self._watch.register(self._bell, selectors.EVENT_READ)
        self._watch.register(sock, selectors.EVENT_READ)

    def play(self, run: Run, answer: Callable, loop: Loop) -> None:
        """Runs the function to its end. When nobody reads any more it is closed."""
        script = Script(run)
        steps = begin(answer, run, loop)
        try:
            while not script.ended:
                future = steps.advance(script.reply)
                self._until(future)
                self._write(_bytes(script, future))
            if self._chunked:
                self._sock.sendall(b"0\r\n\r\n")
        except (Gone, OSError):
            log.debug("run %s: nobody reads any more", run.id)
            run.tool.abort()
        finally:
            steps.close().add_done_callback(lambda closed: _complain(run, closed))

    def close(self) -> None:
        self._watch.close()
        self._ring.close()
        self._bell.close()

    def _until(self, future: "Future[Any]") -> None:
        """Waits for the next step. In silence a comment says that we live."""
        future.add_done_callback(self._wake)
        due = time.monotonic() + self._heartbeat
        while not future.done():
            ready = self._watch.select(max(0.0, due - time.monotonic()))
            for key, _ in ready:
                if key.fileobj is self._bell:
                    self._bell.recv(64)
                else:
                    self._heard()
            if not ready and not future.done():
                self._write(b": alive\n\n")
                due = time.monotonic() + self._heartbeat

    def _wake(self, _: "Future[Any]") -> None:
        try:
            self._ring.send(b".")
        except OSError:
            pass  # nobody waits any more

    def _heard(self) -> None:
        """The caller has nothing more to say: it has gone, or talks out of turn."""
        if not self._sock.recv(4096, socket.MSG_PEEK):
            raise Gone()
        self._watch.unregister(self._sock)

    def _write(self, raw: bytes) -> None:
        if raw:
            self._sock.sendall(b"%x\r\n%b\r\n" % (len(raw), raw) if self._chunked else raw)


def _bytes(script: Script, future: "Future[Any]") -> bytes:
    """What a step came to, as bytes; whatever goes wrong is the answer's end."""
    try:
        return _encoded(script.take(future.result()))
    except Exception as problem:
        return _encoded(script.fail(problem))


def _encoded(frames: List[Frame]) -> bytes:
    return b"".join(encode(f) for f in frames)


def _complain(run: Run, closed: "Future[Any]") -> None:
    if not closed.cancelled() and (problem := closed.exception()):
        log.error("run %s: the agent failed when it was closed", run.id, exc_info=problem)
