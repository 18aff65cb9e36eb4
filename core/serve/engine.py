"""The engine: a process that loads a model, and runs what the server sends it, mini-batch by mini-batch.

It ends when the server does. Signals that a terminal sends to both are the server's business.
"""

from __future__ import annotations

import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import orjson

from abw.core.api import LoadedModel, load
from abw.core.base.errors import AbwError, from_system
from abw.core.base.memory import keep_freed_memory
from abw.core.data.instances import Instances
from abw.core.serve.answers import Answer, Reply, as_lines, as_tensors, described
from abw.core.serve.requests import TENSORS, Request
from abw.core.serve.wire import packed, receive

PATIENCE = 0.005
"""Seconds after which what is answered is sent, though the rest is not: it waits for no large instance."""


class Engine:
    """A model, ready to answer requests."""

    def __init__(self, model: LoadedModel, most: int, nodes: int) -> None:
        """`most` instances with `nodes` vertices are in a mini-batch. Errors: AbwError for unfit models."""
        data = model.spec.data
        if data.frequency:
            hint = "leave out `frequency`, or count the words beforehand: `vocab:`"
            message = "with `frequency` an instance's outputs depend on the file that it stands in"
            raise AbwError(f"{model.spec.name} cannot be served: {message}", hint=hint)
        if data.beside:
            message = f"{model.spec.name} cannot be served: its fields lie in a file beside the instances"
            raise AbwError(message, hint="leave out `beside`: requests have the fields in the instances")
        self.model, self.most, self.nodes = model, most, nodes

    def about(self) -> dict[str, Any]:
        """What the server has to know of the model."""
        spec = self.model.spec
        return {"name": spec.name, "format": spec.data.format, "outputs": described(self.model.outputs)}

    def run(self, requests: Mapping[int, Request]) -> Iterator[tuple[int, Reply, int]]:
        """Answers by the requests' numbers as they are there, with how many of the instances are wrong.

        All are run together; one of which an instance is wrong, or that cannot be run with the others, is run
        once more alone: so no answer depends on what came with it.
        """
        left = dict(requests)
        try:
            for number, answers in self._together(requests):
                if len(requests) == 1 or not any(answer.error for answer in answers):
                    yield number, *self._reply(left.pop(number), answers)
        except (AbwError, MemoryError, RecursionError) as error:
            if len(requests) == 1:
                wrong = error if isinstance(error, AbwError) else from_system(error)
                for number, request in left.items():
                    yield number, *self._reply(request, [Answer(i, (), wrong) for i in range(len(request))])
                return
        for number, request in left.items():
            yield from self.run({number: request})

    def _reply(self, request: Request, answers: Sequence[Answer]) -> tuple[Reply, int]:
        if request.form == TENSORS:
            reply = as_tensors(answers, self.model.outputs, request.asked)
        else:
            reply = as_lines(answers, self.model.outputs, request.lines)
        return reply, sum(answer.error is not None for answer in answers)

    def _together(self, requests: Mapping[int, Request]) -> Iterator[tuple[int, list[Answer]]]:
        """The answers of all requests, each request when all of its instances are run. Errors: AbwError."""
        answers: dict[int, list[Answer | None]] = {r: [None] * len(given) for r, given in requests.items()}
        # of each instance its request and its number in that
        owner = [(r, i) for r, request in requests.items() for i in range(len(request))]
        missing = {r: len(request) for r, request in requests.items()}

        def settle(at: int, answer: Answer) -> Iterator[tuple[int, list[Answer]]]:
            r, i = owner[at]
            answers[r][i] = answer
            missing[r] -= 1
            if not missing[r]:
                yield r, [answer for answer in answers[r] if answer]

        objects: list[object] = []
        errors: dict[int, AbwError] = {}
        for request in requests.values():
            for text in request.texts:
                objects.append(self._object(request, text, len(objects), errors))
        known = dict(errors)
        instances = self.model.read_some(objects, errors)
        for at, error in (errors | known).items():
            yield from settle(at, Answer(owner[at][1], (), error))
        places = instances.numbers.tolist()
        # what depends on an instance's number depends on that in its request
        own = np.array([owner[at][1] for at in places], np.int64)
        lines = np.array([requests[owner[at][0]].lines[owner[at][1]] for at in places], np.int32)
        instances = replace(instances, numbers=own, lines=lines)
        left: list[tuple[int, AbwError]] = []
        found = self.model.columns(
            instances, lambda e: left.append((e.instance, e)), windows_of(instances, self.most, self.nodes)
        )
        for batch, columns in found:
            ends = [[0, *np.cumsum(column.counts).tolist()] for column in columns]
            for k, at in enumerate(places[batch.first : batch.last]):
                parts = tuple((c, end[k], end[k + 1]) for c, end in zip(columns, ends, strict=True))
                name = instances.names[batch.first + k] if instances.names else ""
                yield from settle(at, Answer(name if name != "" else owner[at][1], parts))
        for i, error in left:
            yield from settle(places[i], Answer(owner[places[i]][1], (), error))

    def _object(self, request: Request, text: str, number: int, errors: dict[int, AbwError]) -> object:
        """An instance as `abw.load`'s model takes it; what is no JSON is put into the errors, and blank."""
        if not request.json:
            return text
        try:
            found = orjson.loads(text)
        except ValueError as error:
            errors[number] = AbwError(
                f"not JSON: {error}", hint="an instance a line, as docs/serving.md has it"
            )
            return ""
        if self.model.spec.data.tokens and not isinstance(found, str):
            errors[number] = AbwError("tokens are found in texts", hint="give the sentence as a string")
            return ""
        return found


def windows_of(instances: Instances, most: int, nodes: int) -> list[tuple[int, int]]:
    """Mini-batches of `most` instances with `nodes` vertices at most, or one instance with more."""
    start = instances.start.tolist()
    windows, first = [], 0
    for last in range(1, len(start)):
        if last - first > most or (start[last] - start[first] > nodes and last - first > 1):
            windows.append((first, last - 1))
            first = last - 1
    if first < len(start) - 1:
        windows.append((first, len(start) - 1))
    return windows


class Answering(Protocol):
    """What answers requests, as `Engine` does."""

    def about(self) -> dict[str, Any]:
        """What the server has to know of the model."""

    def run(self, requests: Mapping[int, Request]) -> Iterator[tuple[int, Reply, int]]:
        """Answers by the requests' numbers as they are there, with how many of the instances are wrong."""


def opened(loading: dict[str, Any], limits: dict[str, Any]) -> Engine:
    """The engine that the server asks for, warm. Errors: AbwError."""
    engine = Engine(load(loading.pop("spec"), **loading), limits["batch"], limits["nodes"])
    engine.model.warm()
    return engine


def serve(connection: socket.socket, open: Callable[..., Answering]) -> None:
    """Open the engine that the first message asks for, say so, and answer the others until there are none."""
    first = receive(connection)
    if first is None:
        return
    try:
        engine = open(first[0]["loading"], first[0]["limits"])
    except (AbwError, MemoryError, OSError) as error:
        told = error if isinstance(error, AbwError) else from_system(error)
        connection.sendall(packed({"failed": [told.message, told.hint, told.exit_code]}))
        return
    connection.sendall(packed({"ready": engine.about()}))
    while (message := receive(connection)) is not None:
        _answer(connection, engine, {number: Request(*given) for number, given in message[0]})


def _answer(connection: socket.socket, engine: Answering, requests: Mapping[int, Request]) -> None:
    """Send the answers to requests: those that come together in one message; the last one says so."""
    begun = sent = time.perf_counter()
    heads: list[tuple[int, int, int, int, int]] = []
    bodies: list[bytes] = []
    for number, reply, wrong in engine.run(requests):
        if heads and time.perf_counter() - sent > PATIENCE:
            connection.sendall(packed({"answers": heads, "done": False}, b"".join(bodies)))
            heads, bodies, sent = [], [], time.perf_counter()
        heads.append((number, reply.status, len(reply.body), reply.json_bytes, wrong))
        bodies.append(reply.body)
    took = time.perf_counter() - begun
    connection.sendall(packed({"answers": heads, "done": True, "seconds": took}, b"".join(bodies)))


def main(open: Callable[..., Answering] = opened) -> None:
    """The process: its one argument is the number of the socket to the server."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    keep_freed_memory()
    # the server may be gone
    with (
        socket.socket(fileno=int(sys.argv[1])) as connection,
        suppress(BrokenPipeError, ConnectionResetError),
    ):
        serve(connection, open)


if __name__ == "__main__":
    main()
