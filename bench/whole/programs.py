"""Models as Python functions: what recording, waiting and rounds take, beside kernels and PyTorch by hand."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np

import abw
from abw.bench.options import SPECS, DataDir, Runs, SpecsDir
from abw.bench.pytorch.decoding import WIDTH, Beam
from abw.bench.pytorch.install import torch_or_none
from abw.bench.rows import Row, Rows
from abw.bench.timing import interleaved
from abw.core.base.errors import AbwError
from abw.core.data.read import read
from abw.core.graph.equal.consing import DedupMode
from abw.core.plan.plan import plan
from abw.core.policy.registry import get_policy
from abw.core.program.load import cells
from abw.core.program.net import Net
from abw.core.program.recording.segments import joined
from abw.core.program.recording.values import Value

CALLS, ASKS = 20_000, 50
LIBRARY = """\
library: trees
dims: {hidden: 64, embed: hidden, classes: 5, vocabulary: 256}
tables: {words: {dim: embed}, targets: {dim: embed, rows: vocabulary}}
types:
  leaf: SPECS/cells/treelstm-leaf.yaml
  internal: SPECS/cells/treelstm.yaml
  output: {cell: SPECS/cells/linear.yaml, dims: {in: hidden, out: classes}}
  decoder: SPECS/cells/lstm.yaml
  score: {cell: SPECS/cells/linear.yaml, dims: {in: hidden, out: vocabulary}}
  actions: {cell: SPECS/cells/actions.yaml, dims: {actions: 3}}
"""
# The most words of a sentence.
MOST = 60
# The states h and c that a sentence's decoding begins with, and how many words it gets.
Start = tuple[Any, Any, int]


def programs(data: DataDir, specs: SpecsDir = SPECS, runs: Runs = 7) -> Rows:
    """Time models as Python functions, compared with PyTorch batched by hand.

    CPU time of one thread, medians of interleaved runs with equal decisions.
    """
    for what, seconds in recording(specs, runs).items():
        yield Row("one", what=what, taken_seconds=seconds)
    for hidden in (64, 128):
        yield trees(specs, data / "trees/dev.txt", hidden, runs)
    for hidden, batch in product((64, 256), (1, 8, 64)):
        yield beam(specs, data / "pairs/tst2012.en-vi.txt", hidden, batch, runs)


def library(specs: Path, hidden: int, dedup: DedupMode = "off") -> Net:
    """The cells, of a size, on one thread."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "library.yaml"
        path.write_text(LIBRARY.replace("SPECS", str(specs.resolve())), encoding="utf-8")
        return cells(path, dims={"hidden": hidden}, allow_outside=True, threads=1, dedup=dedup)


def recording(specs: Path, runs: int) -> dict[str, float]:
    """Seconds of a call that records a node of three inputs, with its loop, and of an empty function; of a
    question of one of 64 programs, by greenlets and by generators; of a round of one program; of an array
    that an instance brings along.
    """
    net = library(specs, 8)

    def empty(stack: Value, buffer: Value, history: Value) -> None:
        pass

    def calling(function: Callable[[Value, Value, Value], object], zero: Value) -> None:
        for _ in range(CALLS):
            function(zero, zero, zero)

    def recorded() -> None:
        with net.batching():
            calling(net.actions, net.zeros("hidden"))
            net._session.recorder.take()  # as arrays, but not executed

    def scored() -> Any:  # noqa: ANN401 (a value)
        zero = net.zeros("hidden")
        return net.actions(zero, zero, zero)

    def asking(_: int) -> None:
        score = scored()
        for _ in range(ASKS):
            score.argmax()

    def yielding(_: int) -> Generator[Any, Any, None]:
        score = scored()
        for _ in range(ASKS):
            yield score.argmax()

    def rounds(_: int) -> Generator[Any, Any, None]:
        zero = net.zeros("hidden")
        for _ in range(CALLS // 10):
            yield net.actions(zero, zero, zero).argmax()

    numbers = [*np.random.default_rng(0).random((100, 8), np.float32)]

    def bringing() -> None:
        with net.batching():
            for _ in range(CALLS // 100):
                for array in numbers:
                    net.input(array)

    work: dict[str, tuple[Callable[[], object], int]] = {
        "call, recorded": (recorded, CALLS),
        "call of an empty function": (lambda: calling(empty, net.zeros("hidden")), CALLS),
        "question of one of 64 programs": (lambda: net.run(asking, range(64)), 64 * ASKS),
        "question, yielded": (lambda: net.run(yielding, range(64)), 64 * ASKS),
        "input of an array": (bringing, CALLS),
        "round of one program": (lambda: net.run(rounds, [0]), CALLS // 10),
    }
    taken = interleaved({name: function for name, (function, _) in work.items()}, runs)
    return {name: seconds / work[name][1] for name, seconds in taken.items()}


def trees(specs: Path, file: Path, hidden: int, runs: int) -> Row:
    """A tree LSTM by recursion on up to 64 trees: recorded alone; run; run with equal calls once; and its
    kernels, by the plan of all nodes.
    """
    net, once = library(specs, hidden), library(specs, hidden, "on")
    instances = read(file, "trees")
    words, leaf_kind = instances.vocabulary["word"], instances.schema.kinds.index("leaf")
    named = [words[w] if w >= 0 else "" for w in instances.fields["word"].tolist()]
    left, right = (instances.links[side].target.tolist() for side in ("left", "right"))
    leaves = (instances.kind == leaf_kind).tolist()
    roots = instances.links["root"].target[instances.start[:-1]][:64].tolist()

    def reading(net: Net) -> Callable[[int], Any]:
        leaf, internal, output, table = net.leaf, net.internal, net.output, net.words

        def state(vertex: int) -> Any:  # noqa: ANN401 (h and c)
            if leaves[vertex]:
                both = leaf(table[named[vertex]])
            else:
                left_h, left_c = state(left[vertex])
                right_h, right_c = state(right[vertex])
                both = internal(left_h, left_c, right_h, right_c)
            output(both[0])
            return both

        return state

    read_by, read_once = reading(net), reading(once)

    def recorded() -> None:
        with net.batching():
            for root in roots:
                read_by(root)
            net._session.recorder.take()

    def run() -> None:
        net.run(lambda root: read_by(root) and None, roots, batch=64)

    def run_once() -> None:
        once.run(lambda root: read_once(root) and None, roots, batch=64)

    run()
    run_once()
    engine = net._session.engine()
    graph = engine.graph(joined(engine.segments))[0]
    made = plan(graph, get_policy("critical").schedule(graph.dag))
    work = {"recorded": recorded, "run": run, "once": run_once, "kernels": lambda: net.executor.run(made)}
    seconds = {f"{name}_seconds": taken for name, taken in interleaved(work, runs).items()}
    distinct = len(graph) - once._session.engine().equal_nodes
    counts = {"trees": len(roots), "nodes": len(graph), "distinct": distinct}
    return Row("TreeLSTM by recursion", hidden=hidden, **counts, **seconds)


def beam(specs: Path, file: Path, hidden: int, batch: int, runs: int) -> Row:
    """Beam search for sentences that get as many words as their translations have, from random states.

    Errors: AbwError where PyTorch decides otherwise.
    """
    net, drawn = library(specs, hidden), np.random.default_rng(0)
    lines = file.read_text(encoding="utf-8").splitlines()[: max(8, batch)]
    lengths = [min(len(line.split(" ||| ")[1].split()), MOST) for line in lines]
    states = (drawn.normal(size=(len(lines), 2, hidden)) / 4).astype(np.float32)
    starts = [(*state, length) for state, length in zip(states, lengths, strict=True)]
    decoder, score, targets = net.decoder, net.score, net.targets

    def translate(start: Start) -> list[int]:
        h, c, length = start
        hypotheses = [(0.0, [0], net.input(h), net.input(c))]
        for _ in range(length):
            steps = [decoder(targets[said[-1]], h, c) for _, said, h, c in hypotheses]
            totals = [total for total, *_ in hypotheses]
            picked = abw.best(WIDTH, [score(h) for h, _ in steps], plus=totals)
            hypotheses = [
                (total, [*hypotheses[which][1], word], *steps[which]) for which, word, total in picked
            ]
        return hypotheses[0][1][1:]

    said = net.run(translate, starts, batch=batch)
    work: dict[str, Callable[[], object]] = {"program": lambda: net.run(translate, starts, batch=batch)}
    if torch := torch_or_none():
        weights = {name: values.copy() for name, values in net.params.items()}
        theirs = [
            Beam(torch, weights, {"h": states[a:b, 0], "c": states[a:b, 1]}, np.array(lengths[a:b]))
            for a, b in pairwise([*range(0, len(lines), batch), len(lines)])
        ]
        work["torch"] = lambda: [words for some in theirs for words in some.run()]
        if work["torch"]() != said:
            raise AbwError("PyTorch decides otherwise than the program")
    seconds = interleaved(work, runs)
    over = {"over_torch_times": seconds["torch"] / seconds["program"]} if torch else {}
    times = {f"{name}_seconds": taken for name, taken in seconds.items()}
    words = sum(lengths)
    return Row("beam of 4", hidden=hidden, batch=batch, sentences=len(lines), words=words, **times, **over)
