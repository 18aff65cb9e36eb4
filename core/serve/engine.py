"""The engine of a model: it runs the instances of requests, mini-batch by mini-batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from abw.core.api import LoadedModel, load
from abw.core.base.errors import AbwError
from abw.core.data.instances import Instances
from abw.core.serve.answers import Answer, described, tensors_of
from abw.core.serve.process import main
from abw.core.serve.request_batch import GroupEngine, Together
from abw.core.serve.requests import Request
from abw.core.store.outputs import line_of


class Engine(GroupEngine):
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

    def apart(self, answers: Sequence[Answer]) -> bool:
        """With a wrong instance."""
        return any(answer.error for answer in answers)

    def line(self, answer: Answer, line: int) -> bytes:
        """As `abw run` writes it."""
        return line_of(answer.name, line, self.model.outputs, answer.given)

    def tensors(self, answers: Sequence[Answer]) -> Mapping[str, Any]:
        """See `tensors_of`."""
        return tensors_of(answers, self.model.outputs)

    def together(self, requests: Mapping[int, Request]) -> Iterator[tuple[int, Sequence[Answer]]]:
        """The answers of each request, when all of its instances are run. Errors: AbwError."""
        together = Together(requests)
        settle, objects, errors = together.settle, together.objects, together.errors
        if self.model.spec.data.tokens:
            for at, given in enumerate(objects):
                if not isinstance(given, str):
                    hint = "give the sentence as a string"
                    objects[at], errors[at] = "", AbwError("tokens are found in texts", hint=hint)
        known = dict(errors)
        instances = self.model.read_some(objects, errors)
        yield from together.refuse(errors | known)
        places = instances.numbers.tolist()
        # what depends on an instance's number depends on that in its request
        own = np.array([together.number[at] for at in places], np.int64)
        lines = np.array([together.line[at] for at in places], np.int32)
        instances = replace(instances, numbers=own, lines=lines)
        left: dict[int, AbwError] = {}
        found = self.model.columns(
            instances,
            lambda e: left.update({places[e.instance]: e}),
            windows_of(instances, self.most, self.nodes),
        )
        for batch, columns in found:
            ends = [[0, *np.cumsum(column.counts).tolist()] for column in columns]
            for k, at in enumerate(places[batch.first : batch.last]):
                parts = tuple((c, end[k], end[k + 1]) for c, end in zip(columns, ends, strict=True))
                name = instances.names[batch.first + k] if instances.names else ""
                yield from settle(at, name, parts)
        yield from together.refuse(left)


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
