"""`abw bench growth`: rounds beside their kernels, and beside PyTorch batched by hand."""

from __future__ import annotations

import importlib
import os
import tempfile
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from abw.bench.executors.contenders import import_torch
from abw.bench.growth.byhand import Arrays, Beam, Greedy, GreedyLoop, Parser
from abw.bench.growth.growing import BEAM, GREEDY, Growing
from abw.bench.growth.limits import at_least, live
from abw.bench.growth.overhead import overhead
from abw.bench.options import SPECS, DataDir, Runs, SpecsDir, Torch
from abw.bench.rows import Row, Rows
from abw.core.base.errors import AbwError
from abw.core.data.lookup import word_rows
from abw.core.run.growing.grow import Grown

SIZES = ((64, 256), (256, 256), (256, 8192))
BATCHES = (1, 8, 64)


def growth(data: DataDir, specs: SpecsDir = SPECS, torch: Torch = True, runs: Runs = 7) -> Rows:
    """Time rounds of growing models, compared with PyTorch batched by hand (needs torch).

    CPU time of one thread, medians of interleaved runs with equal decisions. `rounds` covers growth only;
    `limit` is the longer of products at the peak and reading all weights in each round; `whole` is abw
    from instances to finished ones.
    """
    library = import_torch() if torch else None
    with tempfile.TemporaryDirectory() as folder:
        pairs = (data / "pairs/tst2012.en-vi.txt").resolve()
        spec, beam = Path(folder) / "greedy.yaml", Path(folder) / "beam.yaml"
        for path, text in ((spec, GREEDY), (beam, BEAM)):
            placed = text.replace("SPECS", str(specs.resolve())).replace("DATA", str(pairs))
            path.write_text(placed, encoding="utf-8")
        for what, seconds in overhead(spec, pairs, 3 * runs).items():
            yield Row("beside kernels", what=what, taken_seconds=seconds)
        for path in (spec, beam):
            for hidden, words in SIZES:
                for batch in BATCHES:
                    yield decoding(library, path, pairs, hidden, words, batch, runs)
    for hidden in (64, 256):
        yield parsing(library, specs, data / "tags/dev.txt", hidden, runs)


def _dims(hidden: int, words: int) -> dict[str, int]:
    return {"hidden": hidden, "embed": hidden, "vocabulary": words}


def decoding(
    library: Any,  # noqa: ANN401
    spec: Path,
    data: Path,
    hidden: int,
    words: int,
    batch: int,
    runs: int,
) -> Row:
    """Greedy decoding of one mini-batch, or with a beam.

    Without one, `limit` is what rounds take at least, and `masked_limit` where none is left out (`at_least`).
    """
    growing = Growing(spec, data, batch, _dims(hidden, words))
    batch = len(growing.workload.instances)
    made = growing.grown(0, batch)
    said = _decided(made, "step", "next")
    theirs: dict[str, Greedy | GreedyLoop | Parser] = {}
    if library is not None:
        last = _last_sources(made)
        values = made.result.value(0, 0)[last], made.result.value(0, 1)[last]
        first = {"h": values[0].copy(), "c": values[1].copy()}
        beginning = _weights(growing), first, np.array([len(row) for row in said])
        beam = made.picks is not None
        theirs["torch"] = (Beam if beam else Greedy)(library, *beginning)
        if not beam and (jax := import_jax()) is not None:
            theirs["jax"] = GreedyLoop(jax, *beginning)
    seconds = _measured(growing, theirs, said, batch, runs)
    limits: dict[str, float | None] = {}
    if made.picks is None:
        going = live([len(words) for words in said])
        limits["of_limit_share"] = at_least(growing, going) / seconds["abw"]
        if "torch" in seconds:
            limits["torch_of_limit_share"] = at_least(growing, [batch] * len(going)) / seconds["torch"]
    tokens = sum(map(len, said))
    return Row(
        "greedy decoding" if made.picks is None else "decoding by a beam of 4",
        hidden=hidden,
        words=words,
        batch=batch,
        tokens_per_second=tokens / seconds["abw"],
        **limits,
        **_beside(seconds),
        whole_per_second=tokens / seconds["whole"],
    )


def _beside(seconds: Mapping[str, float]) -> dict[str, float]:
    """How many times as long the others take."""
    return {f"over_{n}_times": seconds[n] / seconds["abw"] for n in ("torch", "jax") if n in seconds}


def parsing(library: Any, specs: Path, file: Path, hidden: int, runs: int) -> Row:  # noqa: ANN401
    """The parser on up to 64 sentences, by one thread and by two."""
    dims = {"hidden": hidden, "in": hidden}
    growing = Growing(specs / "stackrnn.yaml", file, 64, dims)
    count = len(growing.workload.instances)
    made = growing.grown(0, count)
    said = _decided(made, "state", "action")
    theirs: dict[str, Greedy | GreedyLoop | Parser] = {}
    if library is not None:
        instances, model = made.instances, growing.workload.model
        tokens = instances.schema.members("token")
        token = np.isin(
            instances.kind, [k for k, name in enumerate(instances.schema.kinds) if name in tokens]
        )
        types = [t.name for t in model.types]
        of = made.graph.vertex[slice(*made.graph.type_ptr[types.index("buffer") :][:2])]
        whose = np.searchsorted(instances.start, of, side="right") - 1
        states = made.result.value(types.index("buffer"), 0)
        table = next(t for t in model.tables if t.name == "words")
        rows = word_rows(instances, "word", table)[instances.fields["word"]]
        words = [rows[a:b][token[a:b]].tolist() for a, b in _spans(made)]
        buffer = [states[whose == i].copy() for i in range(count)]
        theirs["torch"] = Parser(library, _weights(growing), words, buffer, 200)
    seconds = _measured(growing, theirs, said, count, runs)
    two = Growing(specs / "stackrnn.yaml", file, 64, dims, threads=2)
    two.grown(0, count)
    return Row(
        "parser",
        hidden=hidden,
        batch=count,
        actions=sum(map(len, said)),
        rounds_seconds=seconds["abw"],
        **_beside(seconds),
        two_threads_times=seconds["abw"] / median(two.seconds(0, count) for _ in range(runs)),
        whole_seconds=seconds["whole"],
    )


def _measured(
    growing: Growing,
    theirs: Mapping[str, Greedy | GreedyLoop | Parser],
    said: list[list[int]],
    batch: int,
    runs: int,
) -> dict[str, float]:
    """All in turns, in seconds by name. Errors: AbwError where they decide otherwise."""
    for name, contender in theirs.items():
        if contender.run() != said:
            raise AbwError(f"{name} decides otherwise than abw in {growing.workload.model.name}")
    ours, whole = [], []
    others: dict[str, list[float]] = {name: [] for name in theirs}
    for _ in range(runs):
        growing.grown(0, batch)
        ours.append(growing.seconds(0, batch))
        start = time.thread_time()
        growing.grown(0, batch)
        whole.append(time.thread_time() - start)
        for name, contender in theirs.items():
            start = time.process_time()  # JAX works on a thread of its own
            contender.run()
            others[name].append(time.process_time() - start)
    return {name: median(taken) for name, taken in {"abw": ours, "whole": whole, **others}.items()}


def import_jax() -> Any:  # noqa: ANN401
    """JAX on one thread; None where it is not installed."""
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    try:
        return importlib.import_module("jax")
    except ImportError:
        return None


def _weights(growing: Growing) -> Arrays:
    """Parameters and tables by name."""
    network, params = growing.workload.network, growing.params
    values = {p.name: v for p, v in zip(network.params, params.values, strict=True)}
    return values | {t.name: v for t, v in zip(network.tables, params.tables, strict=True)}


def _spans(made: Grown) -> list[tuple[int, int]]:
    start = made.instances.start.tolist()
    return list(pairwise(start))


def _decided(made: Grown, kind: str, decision: str) -> list[list[int]]:
    """What was decided in each instance, in order; of a beam by the best hypothesis."""
    instances = made.instances
    number, values = instances.schema.kinds.index(kind), instances.fields[decision]
    there = instances.kind == number
    if made.picks is not None:
        there &= values >= 0
    return [values[a:b][there[a:b]].tolist() for a, b in _spans(made)]


def _last_sources(made: Grown) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Of each instance the last of the nodes of type 0."""
    first, last = made.graph.type_ptr[:2].tolist()
    whose = np.searchsorted(made.instances.start, made.graph.vertex[first:last], side="right") - 1
    return np.flatnonzero(np.append(whose[1:] != whose[:-1], True))
