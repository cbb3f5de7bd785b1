"""Runs an agent's function one step at a time, whatever kind of function it is.

Async functions of all calls share one event loop; a plain generator has a thread of its own,
in which it may block.
"""

import asyncio
import inspect
import queue
import threading
from concurrent.futures import CancelledError, Future
from typing import Any, AsyncGenerator, Callable, Generator, Optional, Union

from .script import End


class Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="aqueduct-loop", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Cancels what still runs and ends the thread."""
        try:
            asyncio.run_coroutine_threadsafe(self._cancel(), self.loop).result(5)
        except TimeoutError:
            pass  # a task that will not be cancelled ends with the process
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    async def _cancel(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self.loop.shutdown_asyncgens()


def begin(function: Callable, run: Any, loop: Loop) -> "Union[AsyncSteps, ThreadSteps]":
    """Calls the function. Its first step is not taken yet."""
    if inspect.isasyncgenfunction(function) or inspect.iscoroutinefunction(function):
        return AsyncSteps(function(run), loop)
    return ThreadSteps(function, run, loop)


class AsyncSteps:
    """An async generator, or a coroutine that gives the whole answer."""

    def __init__(self, made: Any, loop: Loop):
        self._gen: AsyncGenerator = _once(made) if inspect.iscoroutine(made) else made
        self._loop = loop.loop
        self._task: Optional[asyncio.Task] = None

    def advance(self, value: Any) -> Future:
        return asyncio.run_coroutine_threadsafe(self._advance(value), self._loop)

    async def _advance(self, value: Any) -> Any:
        self._task = asyncio.current_task()
        try:
            return await self._gen.asend(value)
        except StopAsyncIteration:
            return End(None)

    def close(self) -> Future:
        """Ends the generator where it stands; its `finally` blocks run."""
        return asyncio.run_coroutine_threadsafe(self._close(), self._loop)

    async def _close(self) -> None:
        if self._task and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._gen.aclose()


async def _once(coroutine: Any) -> AsyncGenerator:
    yield await coroutine


class ThreadSteps:
    """A generator, or a function that returns the whole answer, in a thread of its own.

    What the function returns may be an async generator, too; its steps are then taken in the
    event loop.
    """

    def __init__(self, function: Callable, run: Any, loop: Loop):
        self._jobs: "queue.SimpleQueue" = queue.SimpleQueue()
        self._function, self._run, self._loop = function, run, loop
        self._gen: Any = None
        self._async: Optional[AsyncSteps] = None
        threading.Thread(target=self._work, name="aqueduct-answer", daemon=True).start()

    def advance(self, value: Any) -> Future:
        if self._async:
            return self._async.advance(value)
        out: Future = Future()
        self._do(lambda: self._advance(value)).add_done_callback(lambda step: self._pass_on(step, out))
        return out

    def close(self) -> Future:
        """Ends the generator at the yield it stands at, or comes to next."""
        closed = self._do(self._close)
        self._jobs.put(None)
        return closed

    def _do(self, job: Callable) -> Future:
        future: Future = Future()
        self._jobs.put((job, future))
        return future

    def _work(self) -> None:
        while (entry := self._jobs.get()) is not None:
            job, future = entry
            try:
                future.set_result(job())
            except BaseException as problem:  # it is told to whoever waits
                future.set_exception(problem)

    def _advance(self, value: Any) -> Any:
        if self._gen is None:
            made = self._function(self._run)
            if inspect.isasyncgen(made) or inspect.iscoroutine(made):
                self._async = AsyncSteps(made, self._loop)
                return self._async
            self._gen = made if inspect.isgenerator(made) else _items(made)
        try:
            return self._gen.send(value)
        except StopIteration as end:
            return End(end.value)

    def _pass_on(self, step: Future, out: Future) -> None:
        problem = step.exception()
        if problem is not None:
            out.set_exception(problem)
        elif self._async is not None and step.result() is self._async:
            self._async.advance(None).add_done_callback(lambda first: _copy(first, out))
        else:
            out.set_result(step.result())

    def _close(self) -> None:
        if self._async is not None:
            self._async.close().result()
        elif self._gen is not None:
            self._gen.close()


def _copy(done: Future, out: Future) -> None:
    if done.cancelled():
        out.set_exception(CancelledError())
    elif (problem := done.exception()) is not None:
        out.set_exception(problem)
    else:
        out.set_result(done.result())


def _items(made: Any) -> Generator:
    """What a function returned, as a generator: nothing, a text, or several items."""
    if made is not None:
        yield from [made] if isinstance(made, str) else made
