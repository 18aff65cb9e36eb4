"""The engine of a model: runs the instances of requests, mini-batch by mini-batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from abw.core.api import LoadedModel, load
from abw.core.base.errors import AbwError
from abw.core.data.instances import Instances
from abw.core.serve.answers import Answer, described, tensors_of
from abw.core.serve.process import BatchEngine, Found, RequestBatch, main, wrong
from abw.core.serve.settings import Limits, Loading
from abw.core.store.outputs import Column, line_of, parts_of


class Engine(BatchEngine):
    """A model, ready to answer requests."""

    def __init__(self, model: LoadedModel, most: int, nodes: int) -> None:
        """Serve mini-batches of at most `most` instances with `nodes` vertices.

        Errors: AbwError for a model that cannot be served.
        """
        data = model.spec.data
        if data.frequency:
            hint = "leave out `frequency`, or count the words beforehand: `vocab:`"
            message = "with `frequency` an instance's outputs depend on the rest of its file"
            raise AbwError(f"{model.spec.name} cannot be served: {message}", hint=hint)
        if data.beside:
            message = f"{model.spec.name} cannot be served: its fields are in a separate file"
            raise AbwError(message, hint="leave out `beside`: requests have the fields in the instances")
        self.model, self.most, self.nodes = model, most, nodes

    def about(self) -> dict[str, Any]:
        """What the server needs to know about the model."""
        spec = self.model.spec
        return {"name": spec.name, "format": spec.data.format, "outputs": described(self.model.outputs)}

    def apart(self, answers: Sequence[Answer]) -> bool:
        """Whether an instance is wrong."""
        return any(answer.error for answer in answers)

    def line(self, answer: Answer, line: int) -> bytes:
        """Write an answer as `abw run` does."""
        return line_of(answer.name, line, self.model.outputs, answer.given)

    def tensors(self, answers: Sequence[Answer], first: int) -> Mapping[str, Any]:
        """Collect outputs in arrays (`tensors_of`)."""
        return tensors_of(answers, self.model.outputs)

    def answers(self, batch: RequestBatch) -> Iterator[Found]:
        """Yield what each instance gave, or what is wrong with it. Errors: AbwError."""
        objects, errors = batch.objects, batch.errors
        if not errors and 0 < len(objects) <= self.most:
            passed = self.model.passed(objects, np.array(batch.number, np.int64), self.nodes)
            if passed is not None:
                columns, names = passed
                yield from self._found(batch, range(len(objects)), columns, names)
                return
        if self.model.spec.data.tokens:
            for at, given in enumerate(objects):
                if not isinstance(given, str):
                    hint = "give the sentence as a string"
                    objects[at], errors[at] = "", AbwError("tokens are found in texts", hint=hint)
        known = dict(errors)
        instances = self.model.read_some(objects, errors)
        yield from wrong(errors | known)
        positions = instances.numbers.tolist()
        # what depends on an instance's number depends on that in its request
        numbers = np.array([batch.number[at] for at in positions], np.int64)
        lines = np.array([batch.line[at] for at in positions], np.int32)
        instances = replace(instances, numbers=numbers, lines=lines)
        left_out: dict[int, AbwError] = {}
        found = self.model.columns(
            instances,
            lambda e: left_out.update({positions[e.instance]: e}),
            windows_of(instances, self.most, self.nodes),
        )
        for (first, last), columns in found:
            names = instances.names[first:last] if instances.names else None
            yield from self._found(batch, positions[first:last], columns, names)
        yield from wrong(left_out)

    def _found(
        self,
        batch: RequestBatch,
        positions: Sequence[int],
        columns: Sequence[Column],
        names: Sequence[str | int] | None,
    ) -> Iterator[tuple[int, Answer]]:
        """Yield the answers of instances at these positions: their parts of columns."""
        for k, (at, parts) in enumerate(zip(positions, parts_of(columns, len(positions)), strict=True)):
            name = names[k] if names else ""
            yield at, Answer(batch.number[at] if name == "" else name, parts)


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


def opened(loading: Loading, limits: Limits) -> Engine:
    """Load the model that the server asks for, and warm it. Errors: AbwError."""
    engine = Engine(load(loading.target, **loading.options), limits.batch, limits.nodes)
    engine.model.warm()
    return engine


if __name__ == "__main__":
    main(opened)
