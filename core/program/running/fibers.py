"""Fibers: programs under way, each of which can be left where it waits and gone on with later.

A plain function runs in a greenlet, of which some are kept (making one takes ten times as long as a switch);
a generator function needs none. Without greenlet a plain function runs through, and may ask nothing.
"""

from __future__ import annotations

import contextvars
import inspect
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Protocol

from abw.core.base.errors import AbwError
from abw.core.base.extras import install
from abw.core.program.recording.asks import ABOVE, ARGMAX, Ask
from abw.core.program.recording.recorder import BY_SWITCH, BY_YIELD, CLOSED, TO_YIELD, Number, Word

try:
    import greenlet
except ImportError:  # the extra `programs`
    greenlet = None

# A function of one instance.
Program = Callable[[Any], Any]


ASYNC = "a plain function that asks (value.argmax()) waits while all others go on: leave async and await out"


def require_program(function: object) -> None:
    """Refuse what cannot be run for an instance. Errors: AbwError."""
    if not callable(function):
        hint = "net.run(function, instances)"
        raise AbwError(f"a program is a function of one instance, not {type(function).__name__}", hint=hint)
    called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    if any(map(inspect.iscoroutinefunction, (function, called))) or inspect.isasyncgenfunction(called):
        raise AbwError("a program that is asynchronous cannot be run", hint=ASYNC)


@dataclass(frozen=True, slots=True)
class Branches:
    """What `each` asks: a function to be run on some items, all side by side."""

    function: Program
    items: tuple[Any, ...]


Asked = Ask | Branches


@dataclass(frozen=True, slots=True)
class Done:
    """A program came to its end with this result."""

    result: Any


class Stopped(BaseException):
    """Raised in a program that is to end where it is; `except Exception` lets it through."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A program raised this: an Exception, or it was Stopped."""

    error: BaseException


# Why a fiber stopped.
Outcome = Asked | Done | Failed


class Fiber(Protocol):
    """A program under way."""

    @property
    def way(self) -> int:
        """How it asks, as `Recorder.asking` says it."""

    @property
    def resume(self) -> Callable[[Any], Outcome]:
        """Goes on with an answer; the first time it begins, whatever that is."""

    @property
    def going(self) -> Any:  # noqa: ANN401
        """What `Recorder.resume` goes on with, once it has begun."""

    def stopped(self, got: Any, sent: int, /) -> Outcome:  # noqa: ANN401
        """Why it stopped, by what it gave that, and how."""

    def raised(self, error: BaseException, /) -> Outcome:
        """The same, where it raised an error."""

    def throw(self, error: BaseException, /) -> Outcome:
        """Go on with an error raised where it asked."""

    @property
    def wait(self) -> Callable[[Asked], Any]:
        """What is called inside of it to ask something: gives what its program gets for that."""

    def ended(self) -> None:
        """It was told that it has come to its end."""


class Noting(Protocol):
    """What may note questions: see `Recorder`."""

    @property
    def asking(self) -> Word:
        """How they are asked."""

    def drop(self) -> None:
        """The last question noted was none."""


class Silent:
    """Notes none."""

    asking = Number()

    def drop(self) -> None:
        """Never called."""


class Fibers:
    """Makes fibers."""

    def __init__(self) -> None:
        self._free: list[Any] = []
        self._thread = 0
        self.hub: Any = None
        self.context = contextvars.copy_context()

    def begin(self) -> None:
        """What is called from here switches between fibers."""
        self.context = contextvars.copy_context()
        if greenlet is None:
            return
        self.hub = greenlet.getcurrent()
        if self._thread != threading.get_ident():  # greenlets belong to a thread
            self._free, self._thread = [], threading.get_ident()

    def make(self, function: Program, item: object, noting: Noting) -> Fiber:
        """A fiber of a function on an item, whose questions may be noted."""
        if inspect.isgeneratorfunction(function):
            return GeneratorFiber(function, item, noting)
        return PlainFiber(function, item) if greenlet is None else GreenletFiber(self, function, item)

    def worker(self) -> Any:  # noqa: ANN401 (a greenlet)
        """One that waits for a function and an item."""
        if self._free:
            made = self._free.pop()
        else:
            made = greenlet.greenlet(self._work)
            made.switch()
        made.gr_context = self.context
        return made

    def free(self, worker: Any) -> None:  # noqa: ANN401
        """Take back a worker whose function has ended."""
        self._free.append(worker)

    def _work(self) -> None:
        outcome: Outcome | None = None
        while True:
            function, item = self.hub.switch(outcome)
            outcome = run_through(function, item)
            del function, item


def run_through(function: Program, item: object) -> Done | Failed:
    """Call a program."""
    try:
        return Done(function(item))
    except (Exception, Stopped) as error:
        return Failed(error)


class GreenletFiber:
    """A plain function. It is gone on with by greenlet itself, without a function of ours between."""

    __slots__ = ("_fibers", "_function", "_item", "_worker", "resume", "wait")
    way = BY_SWITCH

    def __init__(self, fibers: Fibers, function: Program, item: object) -> None:
        self._fibers, self._function, self._item = fibers, function, item
        self._worker: Any = None
        self.resume: Callable[[Any], Outcome] = self._begin
        self.wait: Callable[[Asked], Any] = fibers.hub.switch

    def _begin(self, _: object) -> Outcome:
        self._worker = worker = self._fibers.worker()
        self.resume = worker.switch
        return self.resume((self._function, self._item))

    @property
    def going(self) -> Any:  # noqa: ANN401
        """As in `Fiber`."""
        return self.resume

    def stopped(self, got: Outcome, sent: int) -> Outcome:
        """As in `Fiber`."""
        return got

    def raised(self, error: BaseException) -> Outcome:
        """Never called: a program's errors are outcomes. Raises it."""
        raise error

    def throw(self, error: BaseException) -> Outcome:
        """As in `Fiber`."""
        outcome: Outcome = self._worker.throw(error)
        return outcome

    def ended(self) -> None:
        """As in `Fiber`."""
        self._fibers.free(self._worker)


class GeneratorFiber:
    """A generator function, which yields what it asks."""

    __slots__ = ("_asked", "_function", "_generator", "_item", "_noting")
    way = BY_YIELD

    def __init__(self, function: Program, item: object, noting: Noting) -> None:
        self._function, self._item, self._noting = function, item, noting
        self._generator: Generator[Asked, Any, Any] | None = None
        self._asked: Asked | None = None

    def resume(self, answer: Any, error: BaseException | None = None) -> Outcome:  # noqa: ANN401
        """As in `Fiber`; with an error as `throw`."""
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

    @property
    def going(self) -> Any:  # noqa: ANN401
        """As in `Fiber`."""
        return self._generator

    def stopped(self, got: Any, sent: int) -> Outcome:  # noqa: ANN401
        """As in `Fiber`."""
        if not sent:
            if self._forget():
                return Failed(AbwError("what was asked last was not yielded", hint=_YIELD))
            return Done(got)
        asking = self._noting.asking
        if (got is ARGMAX or got is ABOVE) and asking.value == TO_YIELD:
            asking.value = BY_YIELD
            return got
        if self._asked is None or got is not self._asked:
            wrong = AbwError(f"what was yielded asks nothing: {type(got).__name__}", hint=_YIELD)
            self._forget()
            return self.throw(wrong)
        self._asked = None
        return got

    def raised(self, error: BaseException) -> Outcome:
        """As in `Fiber`."""
        self._forget()
        return Failed(error)

    def _forget(self) -> bool:
        """Whether it has asked something that it did not yield, which is forgotten."""
        asked, self._asked = self._asked, None
        if self._noting.asking.value == TO_YIELD:
            self._noting.drop()
            self._noting.asking.value = BY_YIELD
            return True
        return asked is not None

    def throw(self, error: BaseException) -> Outcome:
        """As in `Fiber`."""
        return self.resume(None, error)

    def ended(self) -> None:
        """As in `Fiber`."""

    def wait(self, ask: Asked) -> Asked:
        """As in `Fiber`: what it is to yield. Errors: AbwError where another question waits for that."""
        if self._asked is not None or self._noting.asking.value == TO_YIELD:
            raise AbwError("what was asked before was not yielded", hint=_YIELD)
        self._asked = ask
        return ask


_YIELD = "a generator function writes: answer = yield value.argmax(…), or yield abw.each(…)"


class PlainFiber:
    """A plain function where greenlet is not installed."""

    __slots__ = ("_function", "_item")
    way = CLOSED

    def __init__(self, function: Program, item: object) -> None:
        self._function, self._item = function, item

    def resume(self, _: object) -> Outcome:
        """As in `Fiber`: once, to its end."""
        return run_through(self._function, self._item)

    def throw(self, error: BaseException) -> Outcome:
        """Never called: it asks nothing."""
        raise error

    @property
    def going(self) -> None:
        """As in `Fiber`: nothing."""

    def stopped(self, got: Outcome, sent: int) -> Outcome:
        """Never called."""
        return got

    raised = throw

    def ended(self) -> None:
        """As in `Fiber`."""

    def wait(self, ask: Asked) -> Any:  # noqa: ANN401
        """Refuse. Errors: AbwError."""
        raise AbwError(
            "a plain function that asks for values needs greenlet, which is not installed",
            hint=f"yield in it: answer = yield value.argmax(…); or, {install('programs')}",
        )
