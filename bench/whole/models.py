"""The shipped gallery end to end, beside PyTorch batched by hand: the same weights, the same outputs."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from abw.bench.executors.blas import import_torch
from abw.bench.executors.trained import STEPS, TOLERANCE, AbwRuns
from abw.bench.timing import rounds
from abw.core.base.errors import AbwError
from abw.core.base.progress import Clock, Progress, each

if TYPE_CHECKING:
    from abw.bench.gallery.batches import Batched

DATA = {
    "gat": "molecules.jsonl",
    "ggnn": "molecules.jsonl",
    "rgcn": "molecules.jsonl",
    "treelstm-attend": "trees.txt",
    "attention-nmt": "pairs.txt",
    "set-transformer": "tags.txt",
    "tree-transformer": "dependency.jsonl",
    "bidag": "expressions.jsonl",
}
"""The data of each model, which ships with it."""


def bench_models(
    specs: Path, names: Sequence[str] | None, hidden: list[int], batch: int, instances: int, runs: int,
    told: Progress,
) -> dict[str, Any]:  # fmt: skip
    """CPU seconds for `instances` instances, the shipped ones repeated; medians of `runs` rounds in turns.

    One thread each. What abw does from instances in memory to outputs counts: construction, scheduling,
    planning, execution (`seconds` by step); learning the policy and compiling do not. `torch` has, for each
    way to batch a model, what PyTorch takes to `compute` mini-batches of which indices and masks are there
    before, and to make these of instances in memory, too (`batch_and_compute`), in seconds and as the median
    of the rounds' ratios (`over_abw`: above 1 abw is ahead). It is empty where PyTorch is absent; the
    report's own `torch`, the version, is null then. `max_error` is how far outputs are apart. Errors:
    AbwError for a model that is not in the gallery, a file that is not there, or outputs that differ.
    """
    chosen = list(DATA) if names is None else list(names)
    for name in chosen:
        if name not in DATA:
            raise AbwError(f"the gallery has no model {name!r}", hint=f"one of {', '.join(DATA)}")
    try:
        torch = import_torch()
        torch.set_num_threads(1)
    except AbwError:
        torch = None
    cases = [(name, size) for name in chosen for size in hidden]
    rows = [
        _row(torch, name, specs, size, batch, instances, runs) for name, size in each(cases, told, "models")
    ]
    version = None if torch is None else torch.__version__
    return {"schema_version": 1, "torch": version, "batch": batch, "runs": runs, "threads": 1, "rows": rows}


def _row(
    torch: Any,  # noqa: ANN401
    name: str,
    specs: Path,
    hidden: int,
    batch: int,
    instances: int,
    runs: int,
) -> dict[str, Any]:
    shipped = specs / "data" / DATA[name]
    if not shipped.is_file():
        raise AbwError(f"there is no {shipped}", hint="say where the specs are: --specs DIR")
    lines = list(islice(cycle(shipped.read_text(encoding="utf-8").splitlines()), instances))
    theirs: dict[str, ByHand] = {}
    with tempfile.TemporaryDirectory() as folder:
        file, weights = Path(folder) / shipped.name, None
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        if torch is not None:
            torch.manual_seed(0)
            theirs = {
                way: ByHand(model, lines, batch) for way, model in _written(name, specs, hidden).items()
            }
            weights = Path(folder) / "weights.pt"
            torch.save(next(iter(theirs.values())).model.state(), weights)
        ours = AbwRuns(specs / f"{name}.yaml", file, weights, hidden, batch, hoist=False)
        read = ours.read()
    found = ours.run_on(read, Clock(*STEPS))
    errors = [_error(name, hidden, found, run()) for some in theirs.values() for run in some.runs().values()]
    clocks: list[Clock] = []

    def run() -> None:
        clocks.append(Clock(*STEPS, timer=time.process_time))
        ours.run_on(read, clocks[-1])

    given = {f"{way} {what}": run for way, some in theirs.items() for what, run in some.runs().items()}
    taken = rounds({"abw": run, **given}, runs, time.process_time)
    return {
        "model": name,
        "hidden": hidden,
        "instances": instances,
        "abw_seconds": median(taken["abw"]),
        "seconds": {step: median(clock.seconds[step] for clock in clocks) for step in STEPS},
        "torch": {
            way: {
                **{f"{what}_seconds": median(taken[f"{way} {what}"]) for what in some.runs()},
                **{
                    f"{what}_over_abw": median(np.divide(taken[f"{way} {what}"], taken["abw"]).tolist())
                    for what in some.runs()
                },
            }
            for way, some in theirs.items()
        },
        "max_error": max(errors, default=None),
    }


class ByHand:
    """A model in PyTorch with its instances in memory, and its mini-batches made."""

    def __init__(self, model: Batched, lines: Sequence[str], batch: int) -> None:
        self.model = model
        read = [model.read(line) for line in lines]
        self._pieces = [read[first : first + batch] for first in range(0, len(read), batch)]
        self._batches = [model.prepare(some) for some in self._pieces]

    def runs(self) -> dict[str, Callable[[], NDArray[Any]]]:
        """Outputs from mini-batches made before, and from instances."""
        return {
            "compute": lambda: self._outputs(self._batches),
            "batch_and_compute": lambda: self._outputs(map(self.model.prepare, self._pieces)),
        }

    def _outputs(self, batches: Iterable[Any]) -> NDArray[Any]:
        torch = import_torch()
        with torch.inference_mode():
            outputs: NDArray[Any] = torch.cat([self.model.compute(some) for some in batches]).numpy()
        return outputs


def _written(name: str, specs: Path, hidden: int) -> dict[str, Batched]:
    """The model in PyTorch, by way of batching; all ways with the same parameters."""
    from abw.bench.gallery import levels, molecules, sentences

    data = specs / "data"
    graph_models: dict[str, Callable[[Path, int], molecules.OverEdges]] = {
        "gat": molecules.GAT,
        "ggnn": molecules.GGNN,
        "rgcn": molecules.RGCN,
    }
    if name in graph_models:
        edges = graph_models[name](data, hidden)
        return {"edges": edges, "bags": edges.with_bags()}
    others: dict[str, Callable[[Path, int], Batched]] = {
        "treelstm-attend": levels.AttentiveTree,
        "bidag": levels.BothWays,
        "attention-nmt": sentences.Translation,
        "set-transformer": sentences.SetTransformer,
        "tree-transformer": sentences.TreeTransformer,
    }
    way = "levels" if name in ("treelstm-attend", "bidag") else "padded"
    return {way: others[name](data, hidden)}


def _error(name: str, hidden: int, found: NDArray[Any], expected: NDArray[Any]) -> float:
    same = found.shape == expected.shape
    worst = float(np.abs(found - expected).max()) if same else float("inf")
    if not worst < TOLERANCE:
        raise AbwError(f"{name}, hidden {hidden}: the outputs differ from PyTorch's by {worst:.1e}")
    return worst
