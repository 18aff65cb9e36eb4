"""Growing models: the rounds of decoding, beside what they take at least, and PyTorch batched by hand."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from itertools import islice, pairwise, product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.bench.options import SPECS, DataDir, Runs, SpecsDir
from abw.bench.pytorch.decoding import Beam, Greedy
from abw.bench.pytorch.install import torch_or_none
from abw.bench.rates import read_seconds
from abw.bench.rows import Row, Rows
from abw.bench.timing import Peak, interleaved
from abw.bench.workloads import STEPS, ready
from abw.core.api import load
from abw.core.base.errors import AbwError
from abw.core.base.progress import Clock
from abw.core.plan.arenas import arenas_of
from abw.core.run.growing.grown import Grown
from abw.core.run.minibatches import run_all
from abw.core.run.observing.footprint import packed_bytes
from abw.core.run.workload import open_model
from abw.core.spec.load import Overrides
from abw.core.train.checkpoint import named

# Hidden size and words; sentences in a mini-batch.
SIZES = ((64, 256), (256, 256), (256, 8192))
BATCHES = (1, 8, 64)
# Greedy decoding of as many words as the sentence's own translation has, up to 60.
GREEDY = """\
model: greedy
dims: {hidden: 64, embed: hidden, vocabulary: 256}
data: {format: pairs, path: DATA, batch: 64}
tables: {sources: {dim: embed, rows: 4000}, targets: {dim: embed, rows: vocabulary}}
grow:
  step:
    links: {prev: step or none, wanted: target or none}
    fields: {said: number}
    most: 60
    start: {said: 0, wanted: "target[0]"}
    choose: {next: argmax score.y}
    then: [{add: step, when: wanted.next, prev: this, said: next, wanted: wanted.next}]
types:
  encoder:
    per: source
    cell: SPECS/cells/lstm.yaml
    inputs: {x: "sources[word]", h: prev.encoder.h or zeros, c: prev.encoder.c or zeros}
  decoder:
    per: step
    cell: SPECS/cells/lstm.yaml
    inputs:
      x: targets[said]
      h: prev.decoder.h or instance.source[-1].encoder.h
      c: prev.decoder.c or instance.source[-1].encoder.c
  score:
    {per: step, cell: SPECS/cells/linear.yaml, dims: {in: hidden, out: vocabulary}, inputs: {x: decoder.h}}
outputs: {words: step.next}
"""
# The same with a beam of four hypotheses: of one step, and then of 59 times four.
BEAM = (
    GREEDY.replace("argmax", "best 4 of").replace("add: step,", "add: step, each: next,").replace("60", "237")
)


def growth(data: DataDir, specs: SpecsDir = SPECS, runs: Runs = 7) -> Rows:
    """Time rounds of growing models, compared with PyTorch batched by hand.

    CPU time of one thread, medians of interleaved runs with equal decisions. Rates and factors cover growth
    only, `whole` goes from instances to finished ones, `call` from texts to outputs by one pass; `limit` is
    the longer of products at the peak and reading all weights in each round.
    """
    peak = Peak()
    for text, (hidden, words), batch in product((GREEDY, BEAM), SIZES, BATCHES):
        growing = Growing(text, specs, data / "pairs/tst2012.en-vi.txt", batch, hidden, words)
        yield decoding(growing, hidden, words, peak, runs)


class Growing:
    """The first instances of a file as one mini-batch that grows."""

    def __init__(self, text: str, specs: Path, file: Path, instances: int, hidden: int, words: int) -> None:
        dims = {"hidden": hidden, "embed": hidden, "vocabulary": words}
        with tempfile.TemporaryDirectory() as folder:
            spec = Path(folder) / "spec.yaml"
            placed = text.replace("SPECS", str(specs.resolve())).replace("DATA", str(file.resolve()))
            spec.write_text(placed, encoding="utf-8")
            overrides = Overrides(dims, batch=instances, limit=instances, allow_outside=True)
            self.ready = ready(open_model(spec, overrides))
            self.model = load(spec, dims=dims, batch=instances, threads=1, allow_outside=True)
        self.workload = self.ready.read()
        with file.open(encoding="utf-8") as lines:
            self.texts = [line.rstrip("\n") for line in islice(lines, instances)]
        assert self.workload.growing is not None
        compiled = self.ready.executor.rounds(self.workload.growing.growth_model)
        if isinstance(compiled, str):
            raise AbwError(f"the rounds are not compiled: {compiled}")
        self.rounds: list[float] = []
        walk: Callable[[NDArray[np.int64]], None] = compiled.rounds

        def timed(state: NDArray[np.int64]) -> None:
            start = time.thread_time()
            walk(state)
            self.rounds[-1] += time.thread_time() - start

        compiled.rounds = timed

    def run(self) -> Grown:
        """Grow; `rounds` gets the CPU time of all rounds, which may be run in several parts."""
        self.rounds.append(0.0)
        ran = run_all(self.workload, self.ready.policy, self.ready.executor, Clock(*STEPS))
        grown = next(ran)[0].grown
        assert grown is not None
        return grown

    def call(self) -> list[list[int]]:
        """Decode the texts by a call from Python: one pass from the second time on."""
        return [words[words >= 0].tolist() for words in self.model(self.texts)["words"]]

    def at_least(self, lengths: list[int], peak: float) -> float:
        """Seconds of rounds in which so many steps of each sentence are computed.

        In each round the longer of the products at the peak and reading all weights once counts.
        """
        network, growth_model = self.ready.networks.network, self.ready.networks.growth_model
        assert growth_model is not None
        during = sorted(growth_model.phases.during)
        packed = packed_bytes(network)
        flops = int(arenas_of(network).product_flops[during].sum())
        read = read_seconds(sum(packed.get(t, 0) for t in during))
        live = [sum(length > done for length in lengths) for done in range(max(lengths))]
        return sum(max(count * flops / peak, read) for count in live)


def decoding(growing: Growing, hidden: int, words: int, peak: Peak, runs: int) -> Row:
    """Greedy decoding of one mini-batch, or with a beam. Errors: AbwError where others decide otherwise."""
    made = growing.run()
    beam = made.picks is not None
    said = _decided(made)
    lengths = [len(row) for row in said]
    given = named(growing.ready.networks.network, growing.ready.params), _first(made), np.array(lengths)
    work: dict[str, Callable[[], object]] = {"whole": growing.run, "call": growing.call, "peak": peak}
    if torch := torch_or_none():
        work["torch"] = (Beam if beam else Greedy)(torch, *given).run
        if work["torch"]() != said:
            raise AbwError("PyTorch decides otherwise than abw")
    if growing.call() != said or growing.call() != said:
        raise AbwError("a call decides otherwise than the rounds")
    growing.rounds.clear()
    seconds = interleaved(work, runs, warming=1)
    ours, least = median(growing.rounds), growing.at_least(lengths, peak.flops())
    return Row(
        "decoding by a beam of 4" if beam else "greedy decoding",
        hidden=hidden,
        words=words,
        batch=len(lengths),
        tokens_per_second=sum(lengths) / ours,
        of_limit_share=None if beam else least / ours,
        over_torch_times=seconds["torch"] / ours if torch else None,
        whole_per_second=sum(lengths) / seconds["whole"],
        call_per_second=sum(lengths) / seconds["call"],
    )


def _decided(made: Grown) -> list[list[int]]:
    """The words of each sentence; of a beam those of the best hypothesis."""
    instances = made.instances
    values = instances.fields["next"]
    there = (instances.kind == instances.schema.kinds.index("step")) & (values >= 0)
    return [values[a:b][there[a:b]].tolist() for a, b in pairwise(instances.start.tolist())]


def _first(made: Grown) -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
    """The states h and c of each sentence's last encoder (type 0)."""
    first, last = made.graph.type_ptr[:2].tolist()
    instance = np.searchsorted(made.instances.start, made.graph.vertex[first:last], side="right")
    ends = np.flatnonzero(np.diff(instance, append=-1))
    return {name: np.asarray(made.result.value(0, i))[ends].copy() for i, name in enumerate("hc")}
