"""The engine's process: opens an engine, and passes on the server's requests.

It ends when the server does. Signals that a terminal sends to both are the server's business.
"""

from __future__ import annotations

import signal
import socket
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from typing import Any, Protocol

from abw.core.base.errors import AbwError, from_system
from abw.core.base.memory import keep_freed_memory
from abw.core.serve.answers import Answer, Reply, as_lines, as_tensors
from abw.core.serve.requests import TENSORS, Request, parsed
from abw.core.serve.settings import Limits, Loading
from abw.core.serve.wire import messages, packed

# Seconds after which finished answers are sent, so that they do not wait for a large instance.
PATIENCE = 0.005


class Answering(Protocol):
    """An object that answers requests, such as an `Engine`."""

    def about(self) -> dict[str, Any]:
        """What the server needs to know about the model."""

    def run(self, requests: Mapping[int, Request]) -> Iterator[tuple[int, Reply, int] | None]:
        """Yield replies by the requests' numbers as they are ready, with how many of the instances are wrong.

        Yields None before replies that may take longer.
        """


def serve(connection: socket.socket, open: Callable[..., Answering]) -> None:
    """Open the engine that the first message asks for, report it, and answer the messages that follow."""
    coming = messages(connection)
    first = next(coming, None)
    if first is None:
        return
    try:
        engine = open(Loading(**first[0]["loading"]), Limits(**first[0]["limits"]))
    except (AbwError, MemoryError, OSError) as error:
        failed = error if isinstance(error, AbwError) else from_system(error)
        connection.sendall(packed({"failed": [failed.message, failed.hint, failed.exit_code]}))
        return
    connection.sendall(packed({"ready": engine.about()}))
    for asked, _ in coming:
        _answer(connection, engine, {number: Request(*given) for number, given in asked})


def _answer(connection: socket.socket, engine: Answering, requests: Mapping[int, Request]) -> None:
    """Send the answers to requests, in as few messages as `PATIENCE` allows; the last one is marked."""
    begun = sent = time.perf_counter()
    heads: list[tuple[int, int, int, int, int]] = []
    bodies: list[bytes] = []
    for found in engine.run(requests):
        if heads and time.perf_counter() - sent > PATIENCE:
            connection.sendall(packed({"answers": heads, "done": False}, b"".join(bodies)))
            heads, bodies, sent = [], [], time.perf_counter()
        if found is not None:
            number, reply, wrong = found
            heads.append((number, reply.status, len(reply.body), reply.json_bytes, wrong))
            bodies.append(reply.body)
    ended = {"done": True, "seconds": time.perf_counter() - begun, "at": time.monotonic()}
    connection.sendall(packed({"answers": heads, **ended}, b"".join(bodies)))


def main(open: Callable[..., Answering]) -> None:
    """Run the process, whose one argument is the number of the socket to the server."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    keep_freed_memory()
    # the server may be gone
    with (
        socket.socket(fileno=int(sys.argv[1])) as connection,
        suppress(BrokenPipeError, ConnectionResetError),
    ):
        serve(connection, open)


class RequestBatch:
    """The instances of several requests, numbered consecutively, and their answers.

    `number`: of each instance that in its request; `line`: on which it begins there; `objects`: its text, or
    the JSON value; `errors`: why some are none.
    """

    def __init__(self, requests: Mapping[int, Request], *, json: bool = False) -> None:
        """Parse the instances. `json`: texts are JSON values, too."""
        self._owner = [r for r, request in requests.items() for _ in request.texts]
        self.number = [request.first + i for request in requests.values() for i in range(len(request))]
        self.line = [line for request in requests.values() for line in request.lines]
        self.errors: dict[int, AbwError] = {}
        self.objects: list[Any] = []
        for request in requests.values():
            for text in request.texts:
                read = request.json or json
                self.objects.append(parsed(text, len(self.objects), self.errors) if read else text)
        self._found: dict[int, dict[int, Answer]] = {r: {} for r in requests}
        self._spans = {r: range(q.first, q.first + len(q)) for r, q in requests.items()}

    def settle(self, at: int, answer: Answer) -> Iterator[tuple[int, list[Answer]]]:
        """Note the answer of instance `at`; yields its request with all answers if it was the last of them.

        An answer without a name gets the instance's number.
        """
        r, i = self._owner[at], self.number[at]
        own = self._found[r]
        own[i] = replace(answer, name=i) if answer.name == "" else answer
        if len(own) == len(self._spans[r]):
            yield r, [own[i] for i in self._spans[r]]


# The answer of an instance, by its number in the batch; None: the next ones may take longer.
Found = tuple[int, Answer] | None


class BatchEngine(ABC):
    """Answers requests, all together if possible. `json`: instances are JSON values."""

    json = False

    def run(self, requests: Mapping[int, Request]) -> Iterator[tuple[int, Reply, int] | None]:
        """Yield replies by the requests' numbers as they are ready, with how many of the instances are wrong.

        Yields None before replies that may take longer. All requests run together; one that cannot be run
        with the others is run again alone, so that no answer depends on what came with it.
        """
        left = dict(requests)
        batch = RequestBatch(requests, json=self.json)
        try:
            with self.guarded():
                for found in self.answers(batch):
                    if found is None:
                        yield None
                        continue
                    for number, answers in batch.settle(*found):
                        if len(requests) == 1 or not self.apart(answers):
                            yield number, *self._reply(left.pop(number), answers)
        except (AbwError, MemoryError, RecursionError) as error:
            if len(requests) == 1:
                wrong = error if isinstance(error, AbwError) else from_system(error)
                for number, request in left.items():
                    answers = [Answer(request.first + i, (), wrong) for i in range(len(request))]
                    yield number, *self._reply(request, answers)
                return
        for number, request in left.items():
            yield from self.run({number: request})

    def _reply(self, request: Request, answers: Sequence[Answer]) -> tuple[Reply, int]:
        if request.form == TENSORS:
            reply = as_tensors(answers, request.asked, self.tensors, request.first)
        else:
            reply = as_lines(answers, request.lines, self.line)
        return reply, sum(answer.error is not None for answer in answers)

    def guarded(self) -> AbstractContextManager[object]:
        """Enclose everything that runs together."""
        return nullcontext()

    def apart(self, answers: Sequence[Answer]) -> bool:
        """Whether a request must run again alone."""
        return False

    @abstractmethod
    def answers(self, batch: RequestBatch) -> Iterator[Found]:
        """Yield the answer of each instance as soon as it is known. Errors: AbwError."""

    @abstractmethod
    def line(self, answer: Answer, line: int) -> bytes:
        """Write an answer as a JSON line. Errors: AbwError."""

    @abstractmethod
    def tensors(self, answers: Sequence[Answer], first: int) -> Mapping[str, Any]:
        """Collect answers in arrays; `first`: the number of the first in its request. Errors: AbwError."""


def wrong(errors: Mapping[int, AbwError]) -> Iterator[tuple[int, Answer]]:
    """Yield the answers of instances that cannot be run."""
    for at, error in errors.items():
        yield at, Answer("", error=error)
