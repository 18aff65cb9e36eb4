"""Beam search as a Python function, beside PyTorch by hand: from the states that decoding begins with."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import abw
from abw.bench.growth.byhand import WIDTH, Beam
from abw.bench.growth.opened import opened
from abw.bench.rows import Row, Rows
from abw.bench.timing import interleaved
from abw.core.base.errors import AbwError
from abw.core.data.lookup import hashed
from abw.core.data.read import read
from abw.core.program.net import Net

LIBRARY = """\
library: beam
dims: {hidden: 64, embed: hidden, vocabulary: 256}
tables: {sources: {dim: embed, rows: 4000}, targets: {dim: embed, rows: vocabulary}}
types:
  encoder: SPECS/cells/lstm.yaml
  decoder: SPECS/cells/lstm.yaml
  score: {cell: SPECS/cells/linear.yaml, dims: {in: hidden, out: vocabulary}}
"""
# Words of a sentence.
MOST = 60
# The states h and c that a sentence's decoding begins with, and how many words it has.
Start = tuple[Any, Any, int]


def translator(net: Net) -> Callable[[Start], list[int]]:
    """Beam search, as one writes it for a sentence."""
    decoder, score, targets = net.decoder, net.score, net.targets

    def translate(start: Start) -> list[int]:
        h, c, length = start
        beam = [(0.0, [0], net.input(h), net.input(c))]
        for _ in range(length):
            steps = [decoder(targets[said[-1]], h, c) for _, said, h, c in beam]
            totals = [total for total, *_ in beam]
            picked = abw.best(WIDTH, [score(h) for h, _ in steps], plus=totals)
            beam = [(total, [*beam[which][1], word], *steps[which]) for which, word, total in picked]
        return beam[0][1][1:]

    return translate


def beams(library: Any, specs: Path, file: Path, hidden: int, runs: int) -> Rows:  # noqa: ANN401
    """Sentences that get as many words as their translations have, at mini-batches of 1, 8 and 64.

    Errors: AbwError where PyTorch decides otherwise.
    """
    net = opened(specs, LIBRARY, hidden)
    starts = _starts(net, file, 64)
    translate = translator(net)
    for batch in (1, 8, 64):
        some = starts[: max(8, batch)]
        chunks = [some[at : at + batch] for at in range(0, len(some), batch)]
        said = net.run(translate, some, batch=batch)
        assert net._last is not None
        work: dict[str, Callable[[], object]] = {
            "plain": lambda some=some, batch=batch: net.run(translate, some, batch=batch)  # type: ignore[misc]
        }
        if library is not None:
            theirs = [_by_hand(library, net, chunk) for chunk in chunks]
            if [words for each in theirs for words in each.run()] != said:
                raise AbwError("PyTorch decides otherwise than the program")
            work["torch"] = lambda theirs=theirs: [each.run() for each in theirs]  # type: ignore[misc]
        seconds = beside(interleaved(work, runs))
        words = sum(map(len, said))
        yield Row("beam of 4", hidden=hidden, batch=batch, sentences=len(some), words=words, **seconds)


def beside(seconds: dict[str, float]) -> dict[str, float]:
    """Seconds by name, and how many times as long PyTorch takes as each of the programs."""
    times = {
        f"torch_over_{name}_times": seconds["torch"] / taken
        for name, taken in seconds.items()
        if "torch" in seconds and name != "torch"
    }
    return {f"{name}_seconds": taken for name, taken in seconds.items()} | times


def _by_hand(library: Any, net: Net, starts: list[Start]) -> Beam:  # noqa: ANN401
    first = {name: np.stack([start[i] for start in starts]) for i, name in enumerate("hc")}
    weights = {name: values.copy() for name, values in net.params.items()}
    return Beam(library, weights, first, np.array([length for *_, length in starts]))


def _starts(net: Net, file: Path, count: int) -> list[Start]:
    """What decoding begins with, of the first sentences of a file of pairs."""
    instances = read(file, "pairs")
    kinds, word = instances.schema.kinds, instances.fields["word"]
    spans = [slice(*both) for both in pairwise(instances.start[: count + 1].tolist())]
    source, target = (instances.kind == kinds.index(name) for name in ("source", "target"))
    rows = hashed(instances.vocabulary["word"], 4000)

    def encode(span: slice) -> Any:  # noqa: ANN401
        h = c = net.zeros("hidden")
        for row in rows[word[span][source[span]]].tolist():
            h, c = net.encoder(net.sources[row], h, c)
        return h, c

    lengths = [min(int(target[span].sum()), MOST) for span in spans]
    return [(h, c, length) for (h, c), length in zip(net.run(encode, spans), lengths, strict=True)]
