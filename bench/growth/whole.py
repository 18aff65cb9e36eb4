"""Whole mini-batches from text to outputs: one that grows, and what it computes before growth alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from abw.bench.growth.growing import GREEDY
from abw.core.api import LoadedModel, load
from abw.core.base.progress import Clock
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.cpu.rounds.rounds import CompiledRounds
from abw.core.policy.registry import get_policy
from abw.core.run.footprint import footprint_of
from abw.core.run.minibatches import run_all
from abw.core.run.streaming import columns_of
from abw.core.run.workload import open_workload

STEPS = ("read", "names", "beside", "kernels")
ENCODER = """\
model: encoder
dims: {hidden: 64, embed: hidden}
data: {format: pairs, path: DATA, batch: 64}
tables: {sources: {dim: embed, rows: 4000}}
types:
  encoder:
    per: source
    cell: SPECS/cells/lstm.yaml
    inputs: {x: "sources[word]", h: prev.encoder.h or zeros, c: prev.encoder.c or zeros}
outputs: {states: encoder.h}
"""
"""What `GREEDY` computes before growth, as a model of its own that does not grow."""


def whole(
    folder: Path, specs: Path, data: Path, dims: dict[str, int], batch: int, runs: int
) -> list[dict[str, Any]]:
    """Seconds of each step, medians of `runs` interleaved runs, by one thread's CPU time.

    `read`: text to instances; `names`: found in these; `beside`: all the rest that is no kernel, up to
    arrays of outputs. `abw run` reads, and finds names, for several mini-batches at once.
    """
    rows: list[tuple[str, _Timed, list[str], list[dict[str, float]]]] = []
    for name, text in (("greedy", GREEDY), ("encoder", ENCODER)):
        path = folder / f"whole-{name}.yaml"
        placed = text.replace("SPECS", str(specs.resolve())).replace("DATA", str(data.resolve()))
        path.write_text(placed, encoding="utf-8")
        own = {dim: size for dim, size in dims.items() if f"{dim}:" in text}
        model = load(path, dims=own, policy=get_policy("critical"), threads=1, allow_outside=True)
        with data.open(encoding="utf-8") as lines:
            rows.append((name, _Timed(model), [line.rstrip("\n") for line in islice(lines, batch)], []))
    for _ in range(runs + 1):
        for _, timed, texts, taken in rows:
            taken.append(timed.steps(texts))
    return [
        {
            "model": name,
            "batch": batch,
            "hidden": dims["hidden"],
            "nodes": timed.nodes,
            "seconds": {step: median(run[step] for run in taken[1:]) for step in STEPS},
        }
        for name, timed, _, taken in rows
    ]


class _Timed:
    """A model whose kernels are timed: the walk over a plan, and compiled rounds."""

    def __init__(self, model: LoadedModel) -> None:
        self.model, self.nodes, self._spent = model, 0, 0.0

    def steps(self, texts: list[str]) -> dict[str, float]:
        """What each step of a mini-batch takes."""
        model, networks = self.model, self.model._networks
        assert model._policy is not None
        step = Clock("read", "names", "beside", timer=time.thread_time)
        with step("read"):
            instances = model.read(texts)
        with step("names"):
            workload = open_workload(model.spec, instances, networks)
        clock = Clock("construct", "schedule", "plan", "execute")
        with self._kernels(), step("beside"):
            batches = run_all(workload, model._policy, model.executor, clock, windows=[(0, len(instances))])
            for made, result in batches:
                footprint_of(made)
                columns_of(workload, made, result)
                self.nodes = len(result.nodes)
        step.seconds["beside"] -= self._spent
        return {**step.seconds, "kernels": self._spent}

    @contextmanager
    def _kernels(self) -> Iterator[None]:
        executor, sprouter = self.model.executor, self.model._networks.sprouter
        assert isinstance(executor, CpuExecutor)
        self._spent = 0.0
        places: list[tuple[Any, str]] = [(executor, "_alone")]
        if sprouter is not None and isinstance(rounds := executor.rounds(sprouter), CompiledRounds):
            places.append((rounds, "rounds"))
        plain = [getattr(owner, name) for owner, name in places]
        for (owner, name), work in zip(places, plain, strict=True):
            setattr(owner, name, self._timed(work))
        yield
        for (owner, name), work in zip(places, plain, strict=True):
            setattr(owner, name, work)

    def _timed(self, work: Callable[..., None]) -> Callable[..., None]:
        def timed(*args: Any) -> None:  # noqa: ANN401
            start = time.thread_time()
            work(*args)
            self._spent += time.thread_time() - start

        return timed
