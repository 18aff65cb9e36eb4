"""Requests whose instances run together: the request of each, and its answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

from abw.core.base.errors import AbwError, from_system
from abw.core.serve.answers import Answer, Reply, as_lines, as_tensors
from abw.core.serve.requests import TENSORS, Request, parsed


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
                    yield (
                        number,
                        *self._reply(
                            request, [Answer(request.first + i, (), wrong) for i in range(len(request))]
                        ),
                    )
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
