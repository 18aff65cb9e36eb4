"""Equal nodes computed once, against all nodes: from a file's text to outputs, in turns on one thread."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from abw.bench.options import SPECS, BatchSizes, DataDir, HiddenSizes, Runs, SpecsDir
from abw.bench.rows import Row, Rows
from abw.bench.sets.molecules import there, write_molecules
from abw.bench.sets.plans import KINDS, write_plans
from abw.bench.sets.syntax import write_syntax
from abw.bench.timing import Work, interleaved
from abw.bench.whole.e2e import texts_of
from abw.bench.workloads import CASES, Case, files_of, ready
from abw.core.base.errors import AbwError
from abw.core.base.progress import Clock
from abw.core.graph.equal.consing import DedupMode
from abw.core.graph.equal.dedup import dedup as without_equal
from abw.core.graph.equal.numbering import keys_of
from abw.core.ir.model import Model
from abw.core.policy.registry import get_policy
from abw.core.run.hoisting import hoist_where_it_pays, hoisted_types
from abw.core.run.minibatches import run_all
from abw.core.run.onepass.onepass import Passes
from abw.core.run.options import PRESETS
from abw.core.run.parallel import PHASES, Part, PartRunner
from abw.core.run.workload import open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides
from abw.core.store.outputs import outputs_of
from abw.core.train.initial import vocabularies
from abw.core.train.learner import Learner
from abw.core.train.session import TrainOptions, open_training

# A rule that learns nothing: policies do not differ in what is compared.
HOW = replace(PRESETS["abw"], policy="critical")
# What only the training sets have of the paper's workloads.
TRAINED = Case("SST", "sst.yaml", "trees/train.txt")
# Models that grow, on real data.
GROWING = (
    Case("greedy decoding", "greedy.yaml", "pairs/tst2012.en-vi.txt"),
    Case("beam of 4", "beam.yaml", "pairs/tst2012.en-vi.txt"),
    Case("stack RNN", "stackrnn.yaml", "tags/dev.txt"),
    Case("experts", "experts.yaml", "tags/dev.txt"),
    Case("early exit", "early-exit.yaml", "trees/train.txt"),
)
Chosen = Annotated[
    str | None,
    typer.Option("--sets", metavar="TEXT", help="Sets whose name has this text.", show_default="all"),
]

MiniBatches = Annotated[int, typer.Option("--mini-batches", min=1, help="Mini-batches of a turn.")]


@dataclass(frozen=True, slots=True)
class Set:
    """Instances in a file, and the spec that they are run with; `write` makes both in a folder."""

    name: str
    write: Callable[[Path, int], tuple[Path, Path | None]]


def sets_of(specs: Path, data: Path) -> Iterator[Set]:
    """The paper's workloads, syntax trees, query plans, and molecules where RDKit is installed."""
    for chosen in (*CASES, *GROWING):
        yield Set(chosen.name, partial(_files, chosen, specs, data))
    yield Set("greedy decoding, sources twice", partial(_twice, specs, data))
    yield Set("syntax trees", lambda folder, count: (write_syntax(folder, count), None))
    full = partial(write_syntax, constants=True)
    yield Set("syntax trees, constants", lambda folder, count: (full(folder, count), None))
    for kind in KINDS:
        yield Set(kind, partial(_plans, kind))
    for name in ("gat", "ggnn") if there() else ():
        yield Set(f"molecules, {name.upper()}", partial(_molecules, specs / f"{name}.yaml"))


def _files(chosen: Case, specs: Path, data: Path, folder: Path, count: int) -> tuple[Path, Path]:
    return files_of(chosen, specs, data)


def _twice(specs: Path, data: Path, folder: Path, count: int) -> tuple[Path, Path]:
    """Sentences to translate, each twice in a row."""
    spec, source = files_of(GROWING[0], specs, data)
    lines, file = source.read_text(encoding="utf-8").splitlines(keepends=True), folder / "twice.txt"
    file.write_text("".join(2 * line for line in lines[: -(-count // 2)]), encoding="utf-8")
    return spec, file


def _plans(kind: str, folder: Path, count: int) -> tuple[Path, None]:
    return write_plans(folder, kind, count), None


def _molecules(spec: Path, folder: Path, count: int) -> tuple[Path, Path]:
    """The molecules, and a copy of the spec that knows their elements."""
    found, elements = write_molecules(folder, count)
    text = spec.read_text(encoding="utf-8").replace("data/elements.txt", elements.name)
    (folder / spec.name).write_text(text, encoding="utf-8")
    return folder / spec.name, found


def dedup(
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: HiddenSizes = [128],
    batch: BatchSizes = [64, 256],
    runs: Runs = 9,
    sets: Chosen = None,
    mini_batches: MiniBatches = 4,
) -> Rows:
    """Compare runs of distinct nodes with runs of all nodes, training steps too, and time the pass.

    A turn runs some mini-batches from text to outputs, without leaves from earlier turns: each as one
    compiled pass where that reads the format (not with a `frequency`) and the model does not grow. `equal`
    only leaves out equal nodes; `usual` is what `abw run` does, which also keeps leaves and hoists products
    where that pays. Tables have a row for each word. Molecules need RDKit (`pip install rdkit`).
    """
    wanted = [each for each in sets_of(specs, data) if (sets or "").lower() in each.name.lower()]
    training = (sets or "").lower() in "training steps"
    if not wanted and not training:
        names = ", ".join([*(each.name for each in sets_of(specs, data)), "training steps"])
        raise AbwError(f"no set is called '{sets}'", hint=names, exit_code=2)
    for chosen, size, instances in product(wanted, hidden, batch):
        with TemporaryDirectory() as folder:
            shutil.copytree(specs / "cells", Path(folder) / "cells")
            spec, file = chosen.write(Path(folder), mini_batches * instances)
            changes = _changes(file, size, instances, mini_batches)
            model = _opened(spec, changes)
            yield _row(chosen.name, model, size, instances, runs)
    for size, instances in product(hidden, batch) if training else ():
        spec, file = files_of(TRAINED, specs, data)
        yield _training_row(spec, file, _changes(file, size, instances, mini_batches), runs)
    if not there() and not sets:
        yield "without molecules: RDKit is not installed"


def _changes(file: Path | None, size: int, batch: int, mini_batches: int) -> Overrides:
    return Overrides({"hidden": size}, file, batch=batch, limit=mini_batches * batch, allow_outside=True)


def _opened(spec: Path, changes: Overrides) -> Model:
    """The model on its first mini-batches, whose tables have a row for each of their words."""
    model = open_model(spec, changes)
    instances = read_instances(model.data, model.data.limit)
    return open_model(spec, replace(changes, words=vocabularies(model, instances, 1)))


def _row(name: str, model: Model, size: int, batch: int, runs: int) -> Row:
    """What a set gains; a model that grows hoists nothing, and keeps no leaves."""
    instances, grows = read_instances(model.data, batch), model.growth is not None
    usual = hoist_where_it_pays(model, lambda: (instances, len(instances)))
    made = {"off": _Runs(model, "off"), "equal": _Runs(model, "on")}
    made["usual"] = _Runs(usual, "auto", leaves=not grows)
    contenders: dict[str, Work] = {way: each.run for way, each in made.items()}
    if grows:
        ours = made["equal"].ready
        workload = open_workload(model, instances, ours.networks)
        found, _ = next(run_all(workload, ours.policy, ours.executor, Clock(*PHASES)))
        assert found.grown is not None
        nodes = len(found.grown.result.nodes)
        distinct = nodes - found.equal_nodes
    else:
        networks = open_networks(model, "cell")
        graph = open_workload(model, instances, networks).graph(0, len(instances))
        keys = keys_of(networks.network, networks.program.edges)
        nodes, distinct = len(graph), len(without_equal(graph, keys))
        contenders["pass"] = partial(without_equal, graph, keys)
    seconds = interleaved(contenders, runs, time.thread_time, warming=1)
    return Row(
        "growing, from text to outputs" if grows else "from text to outputs",
        set=name,
        hidden=size,
        batch=batch,
        nodes=nodes,
        distinct_share=distinct / nodes,
        pass_ns=None if grows else 1e9 * seconds["pass"] / nodes,
        off_seconds=seconds["off"],
        equal_times=seconds["off"] / seconds["equal"],
        usual_times=seconds["off"] / seconds["usual"],
        hoisted_types=len(hoisted_types(usual)),
    )


class _Runs:
    """A model's mini-batches from their text to outputs on one thread: a compiled pass each where one reads
    the format, as a call of a loaded model; else, and where the model grows, as `abw run` runs them.
    """

    def __init__(self, model: Model, mode: DedupMode, *, leaves: bool = False) -> None:
        self.ready = ours = ready(model, HOW, dedup=mode, leaves=leaves)
        passes = Passes(model, ours.networks, ours.executor, outputs_of(model))
        passes.make(ours.policy)
        grows = model.growth is not None
        self._runner = PartRunner(ours.policy, ours.executor, Clock(*PHASES), passes, looked_at=grows)
        self._pass = None if grows or passes.made is None or not passes.made.reading else passes.made
        texts, size = texts_of(model, model.data.limit or 1) if self._pass else [], model.data.batch
        self._texts = [texts[i : i + size] for i in range(0, len(texts), size)]

    def run(self) -> None:
        """Run all of them, without leaves that earlier runs have kept."""
        leaves = self.ready.executor.leaves
        if leaves is not None:
            leaves.forget()
        if self._pass and all(self._pass.objects(list(texts)) is not None for texts in self._texts):
            return
        workload = self.ready.read()
        for _, _, found in self._runner.run([Part(workload, list(workload.windows()))]):
            for done in found:
                done.columns()


def _training_row(spec: Path, file: Path, changes: Overrides, runs: int) -> Row:
    """Training steps of the sentiment model, words dropped, with all nodes and with distinct ones."""
    batch, limit = changes.batch or 1, changes.limit or 1
    found = {
        mode: _Steps(spec, changes, TrainOptions(dedup=mode, dev=file, threads=1), batch) for mode in MODES
    }
    seconds = interleaved({mode: steps.run for mode, steps in found.items()}, runs, warming=1)
    nodes = {mode: steps.nodes for mode, steps in found.items()}
    return Row(
        "training steps",
        hidden=changes.dims["hidden"],
        batch=batch,
        nodes=nodes["off"],
        distinct_share=nodes["on"] / nodes["off"],
        off_seconds=seconds["off"] * batch / limit,
        equal_times=seconds["off"] / seconds["on"],
        loss_error=abs(found["on"].loss - found["off"].loss) / found["off"].loss,
    )


MODES: tuple[DedupMode, ...] = ("off", "on")


class _Steps:
    """Training steps on all mini-batches, whose weights stay as they are between two turns."""

    def __init__(self, spec: Path, changes: Overrides, options: TrainOptions, batch: int) -> None:
        opened = open_training(spec, changes, options)
        model, networks = opened.model, opened.networks
        params = ready(model, HOW).params
        self.learner = Learner(model, networks, params, get_policy("sufficient"), threads=1)
        self.workload = open_workload(model, opened.instances, networks)
        self.targets = self.learner.targets(self.workload.instances)
        self.batch, self.loss = batch, 0.0
        self.nodes = len(self.learner.planned(self.workload, 0, batch, 0).graph)
        self.loss = self.learner.found(self.learner.lesson(self.workload, 0, batch, self.targets, 0)).loss

    def run(self) -> None:
        """A step on each mini-batch."""
        for first in range(0, len(self.workload.instances), self.batch):
            found = self.learner.found(
                self.learner.lesson(self.workload, first, first + self.batch, self.targets, 0)
            )
            self.learner.apply_gradient(found.gradient, 0.0)
