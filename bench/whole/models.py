"""The shipped gallery end to end, beside PyTorch batched by hand: the same weights, the same outputs."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from abw.bench.executors.contenders import import_torch, torch_or_none
from abw.bench.options import SPECS, Batch, HiddenSizes, Instances, Runs, SpecsDir
from abw.bench.rows import Row, Rows
from abw.bench.systems import STEPS
from abw.bench.timing import rounds
from abw.bench.workloads import learned_policy
from abw.core.base.errors import AbwError
from abw.core.base.progress import Clock

if TYPE_CHECKING:
    from abw.bench.gallery.batches import Batched
    from abw.core.data.instances import Instances as Read

# How far outputs, of order 1 and in float32, may be apart.
TOLERANCE = 1e-5
# The data of each model, which ships with it.
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


def models(
    specs: SpecsDir = SPECS,
    names: Annotated[
        str | None,
        typer.Option("--models", metavar="NAME,...", help="For example gat,bidag.", show_default="all"),
    ] = None,
    hidden: HiddenSizes = [64, 256],
    batch: Batch = 64,
    instances: Instances = 256,
    runs: Runs = 15,
) -> Rows:
    """Compare the shipped models of graphs, trees and attention with PyTorch, from instances to outputs.

    CPU time of one thread on the shipped instances, repeated. PyTorch is batched by hand: `computation`
    excludes indices and masks, `all of it` includes them. Factors are medians of interleaved rounds.
    """
    chosen = list(DATA) if names is None else names.split(",")
    for name in chosen:
        if name not in DATA:
            raise AbwError(
                f"the gallery has no model {name!r}", hint=f"one of {', '.join(DATA)}", exit_code=2
            )
    torch = torch_or_none()
    for name in chosen:
        for size in hidden:
            yield from _rows(torch, name, specs, size, batch, instances, runs)
    if torch is None:
        yield "PyTorch is not installed: nothing to compare with (pip install torch, the build for the CPU)"


def _rows(
    torch: Any,  # noqa: ANN401
    name: str,
    specs: Path,
    hidden: int,
    batch: int,
    instances: int,
    runs: int,
) -> Rows:
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
        ours = AbwRuns(specs / f"{name}.yaml", file, weights, hidden, batch)
        read = ours.read()
    found = ours.run_on(read, Clock(*STEPS))
    errors = [_error(name, hidden, found, run()) for some in theirs.values() for run in some.runs().values()]
    clocks: list[Clock] = []

    def run() -> None:
        clocks.append(Clock(*STEPS, timer=time.process_time))
        ours.run_on(read, clocks[-1])

    given = {f"{way} {what}": run for way, some in theirs.items() for what, run in some.runs().items()}
    taken = rounds({"abw": run, **given}, runs, time.process_time)
    ours_rate = instances / median(taken["abw"])
    steps = {f"{step}_seconds": median(clock.seconds[step] for clock in clocks) for step in STEPS}
    yield Row("abw", model=name, hidden=hidden, instances_per_second=ours_rate, **steps)
    for way in theirs:
        times = {
            what: median(np.divide(taken[f"{way} {key}"], taken["abw"]).tolist())
            for what, key in (("computation", "compute"), ("all_of_it", "batch_and_compute"))
        }
        yield Row(
            "PyTorch by hand",
            model=name,
            hidden=hidden,
            batched_by=way,
            abw_per_second=ours_rate,
            over_computation_times=times["computation"],
            over_all_of_it_times=times["all_of_it"],
            output_error=max(errors),
        )


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


class AbwRuns:
    """What `abw run SPEC --data FILE --weights FILE --threads 1` does between reading and writing a file."""

    def __init__(self, spec: Path, file: Path, weights: Path | None, hidden: int, batch: int) -> None:
        from abw.core.exec.registry import get_executor
        from abw.core.exec.trained import load_weights, make_params
        from abw.core.run.workload import open_model, open_networks
        from abw.core.spec.load import Overrides

        overrides = Overrides({"hidden": hidden}, file, batch=batch, weights=weights)
        self._model = open_model(spec, overrides)
        self._networks = open_networks(self._model, "cell")
        self._executor = get_executor("cpu")
        params = make_params(self._networks.network, load_weights(self._model), 0)
        self._executor.prepare(self._networks.network, params, 1)
        self._policy = learned_policy(self._model, self._networks, name="auto")

    def read(self) -> Read:
        """The file's instances."""
        from abw.core.run.workload import read_instances

        return read_instances(self._model.data, None)

    def run_on(self, instances: Read, clock: Clock) -> NDArray[Any]:
        """Outputs in the order of instances and vertices; `clock` counts the steps."""
        from abw.core.run.minibatches import run_all
        from abw.core.run.workload import open_workload

        with clock("construct"):
            workload = open_workload(self._model, instances, self._networks)
        outputs = [
            result.values(batch.graph.results[0].reference)
            for batch, result in run_all(workload, self._policy, self._executor, clock)
        ]
        return np.concatenate(outputs)
