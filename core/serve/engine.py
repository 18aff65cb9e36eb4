"""The engine of a model: it runs the instances of requests, mini-batch by mini-batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from abw.core.api import LoadedModel, load
from abw.core.base.errors import AbwError, from_system
from abw.core.data.instances import Instances
from abw.core.serve.answers import Answer, Reply, as_lines, as_tensors, described
from abw.core.serve.process import main
from abw.core.serve.requests import TENSORS, Request, parsed
from abw.core.serve.together import Together


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
        together = Together[Answer](requests)
        owner, settle = together.owner, together.settle
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
        lines = np.array([together.line[at] for at in places], np.int32)
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
        found = parsed(text, number, errors)
        if number in errors:
            return found
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


def opened(loading: dict[str, Any], limits: dict[str, Any]) -> Engine:
    """The engine that the server asks for, warm. Errors: AbwError."""
    engine = Engine(load(loading.pop("spec"), **loading), limits["batch"], limits["nodes"])
    engine.model.warm()
    return engine


if __name__ == "__main__":
    main(opened)
