"""Requests whose instances are run together: whose each is, what comes of it, and how they are answered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from abw.core.base.errors import AbwError, from_system
from abw.core.serve.answers import Answer, Reply, as_lines, as_tensors
from abw.core.serve.requests import TENSORS, Request, parsed


class Together:
    """The instances of requests, numbered through, and what comes of them.

    `number`: of each that in its request; `line`: on which it begins there; `objects`: its text, or the JSON
    value; `errors`: what is wrong with those that are none.
    """

    def __init__(self, requests: Mapping[int, Request], *, json: bool = False) -> None:
        """Nothing has come of any yet. `json`: texts are JSON values, too."""
        self._owner = [r for r, request in requests.items() for _ in request.texts]
        self.number = [i for request in requests.values() for i in range(len(request))]
        self.line = [line for request in requests.values() for line in request.lines]
        self.errors: dict[int, AbwError] = {}
        self.objects: list[Any] = []
        for request in requests.values():
            for text in request.texts:
                read = request.json or json
                self.objects.append(parsed(text, len(self.objects), self.errors) if read else text)
        self._found: dict[int, dict[int, Answer]] = {r: {} for r in requests}
        self._sizes = {r: len(request) for r, request in requests.items()}

    def settle(
        self,
        at: int,
        name: str | int = "",
        given: object = (),
        error: AbwError | None = None,
        **more: Any,  # noqa: ANN401
    ) -> Iterator[tuple[int, list[Answer]]]:
        """Note what came of an instance; its request with that of all its own, if it was the last of them.

        Without a name it has its number; `more`: as of `Answer`.
        """
        r, i = self._owner[at], self.number[at]
        own = self._found[r]
        own[i] = Answer(i if name == "" else name, given, error, **more)
        if len(own) == self._sizes[r]:
            yield r, [own[i] for i in range(len(own))]

    def refuse(self, errors: Mapping[int, AbwError]) -> Iterator[tuple[int, list[Answer]]]:
        """Note what is wrong with instances."""
        for at, error in errors.items():
            yield from self.settle(at, error=error)


class GroupEngine(ABC):
    """Answers requests, all together where they can be."""

    def run(self, requests: Mapping[int, Request]) -> Iterator[tuple[int, Reply, int] | None]:
        """Answers by the requests' numbers as they are there, with how many of the instances are wrong; None
        where the next ones may take longer.

        All are run together; one that cannot be run with the others is run once more alone: so no answer
        depends on what came with it.
        """
        left = dict(requests)
        try:
            with self.guarded():
                for found in self.together(requests):
                    if found is None:
                        yield None
                    elif len(requests) == 1 or not self.apart(found[1]):
                        yield found[0], *self._reply(left.pop(found[0]), found[1])
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
            reply = as_tensors(answers, request.asked, self.tensors)
        else:
            reply = as_lines(answers, request.lines, self.line)
        return reply, sum(answer.error is not None for answer in answers)

    def guarded(self) -> AbstractContextManager[object]:
        """Around all that runs together."""
        return nullcontext()

    def apart(self, answers: Sequence[Answer]) -> bool:
        """Whether a request is to be run alone once more."""
        return False

    @abstractmethod
    def together(self, requests: Mapping[int, Request]) -> Iterator[tuple[int, Sequence[Answer]] | None]:
        """The answers of each request, when all of its instances are run. Errors: AbwError."""

    @abstractmethod
    def line(self, answer: Answer, line: int) -> bytes:
        """An answer as a JSON line. Errors: AbwError."""

    @abstractmethod
    def tensors(self, answers: Sequence[Answer]) -> Mapping[str, Any]:
        """Answers as arrays. Errors: AbwError."""
