"""Fibers: running programs that can be suspended where they wait, and resumed later.

A plain function runs in a greenlet, of which some are kept (making one takes ten times as long as a switch);
a generator function needs none. Without greenlet a plain function runs through, and may ask nothing.
"""

from __future__ import annotations

import contextvars
import inspect
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import cache, partial
from types import FunctionType
from typing import Any

from abw.core.base.errors import AbwError, install
from abw.core.program.recording.asks import NOTED, Ask
from abw.core.program.recording.machine_code import (
    BY_SWITCH,
    BY_YIELD,
    CLOSED,
    FAST,
    TO_YIELD,
    machine_function,
)
from abw.core.program.recording.recorder import Recorder

try:
    import greenlet
except ImportError:  # the extra `programs`
    greenlet = None

# A function of one instance.
Program = Callable[[Any], Any]


ASYNC = "a plain function that asks (value.argmax()) waits while all others go on: leave async and await out"
_YIELD = "a generator function writes: answer = yield value.argmax(…), or yield abw.each(…)"

# The flags of asynchronous functions and generators.
_ASYNC = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def require_program(function: object) -> None:
    """Refuse an object that cannot be run as a program. Errors: AbwError."""
    if type(function) is FunctionType and not (function.__code__.co_flags & _ASYNC or vars(function)):
        return  # as mostly, which is told at once
    if not callable(function):
        hint = "net.run(function, instances)"
        raise AbwError(f"a program is a function of one instance, not {type(function).__name__}", hint=hint)
    called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    if any(map(inspect.iscoroutinefunction, (function, called))) or inspect.isasyncgenfunction(called):
        raise AbwError("asynchronous programs cannot be run", hint=ASYNC)


@dataclass(frozen=True, slots=True)
class Branches:
    """The question of `abw.each`: a function to run on some items, concurrently."""

    function: Program
    items: tuple[Any, ...]


Asked = Ask | Branches


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a program that has ended."""

    result: Any


class Stopped(BaseException):
    """Raised in a program to end it; `except Exception` does not catch it."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The error that ended a program: an Exception, or Stopped."""

    error: BaseException


# Why a fiber stopped.
Outcome = Asked | Done | Failed


def run_through(function: Program, item: object) -> Done | Failed:
    """Call a program, and return how it ended."""
    try:
        return Done(function(item))
    except (Exception, Stopped) as error:
        return Failed(error)


@cache
def _bounded() -> Callable[[Callable[[], object]], object]:
    """What calls the first function of a greenlet, so that errors of C++ in it do not look further."""
    return machine_function("bounded", "bounded", FAST, "bounded(function)", ())


class Fibers:
    """Makes fibers, and keeps the greenlets of those that have ended."""

    def __init__(self) -> None:
        self._free: list[Any] = []
        self._thread = 0
        self._function: Program | None = None
        self._generates = False
        self.hub: Any = None
        self.context = contextvars.copy_context()

    def begin(self) -> None:
        """Let fibers switch back to the caller of this."""
        self.context = contextvars.copy_context()
        if greenlet is None:
            return
        self.hub = greenlet.getcurrent()
        if self._thread != threading.get_ident():  # greenlets belong to a thread
            self._free, self._thread = [], threading.get_ident()

    def make(self, function: Program, item: object, noting: Recorder | None) -> Fiber:
        """Make a fiber of a function on an item; `noting` is what notes its questions, if anything does."""
        if function is not self._function:  # asking takes a microsecond
            self._function, self._generates = function, inspect.isgeneratorfunction(function)
        if self._generates:
            return GeneratorFiber(function, item, noting)
        return Fiber(function, item) if greenlet is None else GreenletFiber(self, function, item)

    def worker(self) -> Any:  # noqa: ANN401 (a greenlet)
        """A greenlet that waits for a function and an item."""
        if self._free:
            made = self._free.pop()
        else:
            made = greenlet.greenlet(partial(_bounded(), self._work))
            made.switch()
        made.gr_context = self.context
        return made

    def free(self, worker: Any) -> None:  # noqa: ANN401
        """Take back a greenlet whose function has ended."""
        self._free.append(worker)

    def end(self) -> None:
        """Let go of the function that was run, since what kept greenlets hold lives as long as they do."""
        self._function = None

    def close(self) -> None:
        """End the greenlets that are kept: what their stacks hold is not seen by Python's collector."""
        while self._free:
            worker = self._free.pop()
            if self._thread == threading.get_ident():
                worker.parent = greenlet.getcurrent()
                worker.throw()

    def _work(self) -> None:
        outcome: Outcome | None = None
        while True:
            function, item = self.hub.switch(outcome)
            outcome = run_through(function, item)
            del function, item


class Fiber:
    """A running program. This class runs plain functions without greenlet, which can ask nothing.

    `way`: how it asks, as `Recorder.asking` says it.
    """

    __slots__ = ("_function", "_item")
    way = CLOSED

    def __init__(self, function: Program, item: object) -> None:
        self._function, self._item = function, item

    def resume(self, answer: Any) -> Outcome:  # noqa: ANN401
        """Resume with an answer; the first call begins, and ignores it."""
        return run_through(self._function, self._item)

    def throw(self, error: BaseException) -> Outcome:
        """Resume by raising an error where it asked."""
        raise error

    def wait(self, asked: Asked) -> Any:  # noqa: ANN401
        """Ask a question inside of it; returns the answer for its program. Errors: AbwError."""
        raise AbwError(
            "a plain function that asks for values needs greenlet, which is not installed",
            hint=f"yield in it: answer = yield value.argmax(…); or, {install('programs')}",
        )

    @property
    def going(self) -> Any:  # noqa: ANN401
        """The object that `Recorder.resume` resumes, once the program has begun."""
        return None

    def stopped(self, got: Any, sent: int) -> Outcome:  # noqa: ANN401
        """Return why it stopped, by what `going` returned and `Recorder.sent`."""
        outcome: Outcome = got
        return outcome

    def raised(self, error: BaseException) -> Outcome:
        """Return why it stopped, if `going` raised an error; re-raise errors that are not the program's."""
        raise error

    def ended(self) -> None:
        """Free what it holds, since it has ended."""


class GreenletFiber(Fiber):
    """A plain function in a greenlet, which is resumed directly."""

    __slots__ = ("_fibers", "_worker", "resume", "wait")
    way = BY_SWITCH

    def __init__(self, fibers: Fibers, function: Program, item: object) -> None:
        self._fibers, self._function, self._item = fibers, function, item
        self._worker: Any = None
        self.resume: Callable[[Any], Outcome] = self._begin  # type: ignore[assignment]
        self.wait: Callable[[Asked], Any] = fibers.hub.switch  # type: ignore[assignment]

    def _begin(self, _: object) -> Outcome:
        self._worker = worker = self._fibers.worker()
        self.resume = worker.switch
        return self.resume((self._function, self._item))

    def throw(self, error: BaseException) -> Outcome:
        """Resume by raising an error where it asked."""
        outcome: Outcome = self._worker.throw(error)
        return outcome

    @property
    def going(self) -> Any:  # noqa: ANN401
        """The greenlet's switch."""
        return self.resume

    def ended(self) -> None:
        """Give the greenlet back."""
        self._fibers.free(self._worker)


class GeneratorFiber(Fiber):
    """A generator function, which yields its questions."""

    __slots__ = ("_asked", "_generator", "_noting")
    way = BY_YIELD

    def __init__(self, function: Program, item: object, noting: Recorder | None = None) -> None:
        self._function, self._item, self._noting = function, item, noting
        self._generator: Generator[Asked, Any, Any] | None = None
        self._asked: Asked | None = None

    def resume(self, answer: Any, error: BaseException | None = None) -> Outcome:  # noqa: ANN401
        """Resume with an answer or an error; the first call begins."""
        try:
            if self._generator is None:
                self._generator = self._function(self._item)
            going = self._generator
            got = going.send(answer) if error is None else going.throw(error)
        except StopIteration as end:
            return self.stopped(end.value, 0)
        except (Exception, Stopped) as raised:
            return self.raised(raised)
        return self.stopped(got, 1)

    def throw(self, error: BaseException) -> Outcome:
        """Resume by raising an error where it asked."""
        return self.resume(None, error)

    def wait(self, asked: Asked) -> Asked:
        """Return the object to yield. Errors: AbwError if another question is waiting."""
        noting = self._noting
        if self._asked is not None or (noting is not None and noting.asking.value == TO_YIELD):
            raise AbwError("an earlier question was not yielded", hint=_YIELD)
        self._asked = asked
        return asked

    @property
    def going(self) -> Any:  # noqa: ANN401
        """The generator."""
        return self._generator

    def stopped(self, got: Any, sent: int) -> Outcome:  # noqa: ANN401
        """Return why it stopped: it yielded this (`sent` is 1), or returned it (0)."""
        if not sent:
            if self._forget():
                return Failed(AbwError("the last question was not yielded", hint=_YIELD))
            return Done(got)
        noting = self._noting
        if id(got) in NOTED and noting is not None and noting.asking.value == TO_YIELD:
            noting.asking.value = BY_YIELD
            noted: Ask = got
            return noted
        if self._asked is None or got is not self._asked:
            wrong = AbwError(f"what was yielded asks nothing: {type(got).__name__}", hint=_YIELD)
            self._forget()
            return self.throw(wrong)
        outcome, self._asked = self._asked, None
        return outcome

    def raised(self, error: BaseException) -> Outcome:
        """Return that it stopped with an error."""
        self._forget()
        return Failed(error)

    def _forget(self) -> bool:
        """Whether it has asked something that it did not yield, which is forgotten."""
        asked, self._asked = self._asked, None
        noting = self._noting
        if noting is not None and noting.asking.value == TO_YIELD:
            noting.drop()
            noting.asking.value = BY_YIELD
            return True
        return asked is not None
