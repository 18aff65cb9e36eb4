"""A model that is loaded: called on instances, looked at step by step, trained, built."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError, InstanceError, did_you_mean
from abw.core.base.parallel import overlapping
from abw.core.base.progress import Clock, Quiet
from abw.core.build.library import BuildTarget, Source, build_library
from abw.core.data.derive import conform
from abw.core.data.feed import open_feed
from abw.core.data.given.objects import read_objects, require_instances
from abw.core.data.instances import Instances
from abw.core.data.read import Piece, chunk_piece, objects_piece
from abw.core.exec.interface import Executor, Result
from abw.core.exec.params import Params
from abw.core.exec.precision import Precision
from abw.core.exec.registry import executor_of
from abw.core.graph.graph import Graph
from abw.core.ir.model import Model
from abw.core.ir.network import Network
from abw.core.plan.plan import Plan, plan
from abw.core.policy.registry import get_policy
from abw.core.policy.schedule import Policy, Schedule
from abw.core.policy.user_policy import Validated, checked
from abw.core.run.learning import Asked, Choice, policy_of
from abw.core.run.onepass.onepass import Passes
from abw.core.run.parallel import PHASES, Part, PartRunner
from abw.core.run.streaming import read_ahead
from abw.core.run.workload import (
    Networks,
    Workload,
    chunks_of,
    open_networks,
    open_sample,
    open_workload,
    read_instances,
    whole,
)
from abw.core.store.outputs import Column, outputs_of
from abw.core.store.ragged import Outputs, gathered
from abw.core.train.learner import Learner
from abw.core.train.teacher import Teacher, finished_model
from abw.core.train.trainer import Trainer

Floats = NDArray[np.float32]
# A file in the model's data format (a `Path`), Python objects, or what `LoadedModel.read` or
# `Instances.from_arrays` gave.
Given = os.PathLike[str] | Iterable[object] | Instances
# An instance that cannot be read or run ends the call, or is listed in `Outputs.errors`.
Errors = Literal["raise", "return"]
_ERRORS = get_args(Errors)


# Mini-batches in order, as their instances from one to before another, each with a column for every output.
Columns = Iterator[tuple[tuple[int, int], tuple[Column, ...]]]
# Instances, their outputs, and afterwards those that the model could not be run on.
_Run = tuple[Piece, Columns, list[InstanceError]]

# The arguments of `LoadedModel` after its executor.
_Options = tuple[str | Policy, Choice, int, bool, Instances | None, int | None]


def prepared(
    model: Model, networks: Networks, params: Params, executor: tuple[str, Precision], options: _Options
) -> LoadedModel:
    """Make a model with a fresh executor. Errors: AbwError if this machine does not have it."""
    ready = executor_of(*executor)
    ready.prepare(networks.network, params, options[-1])
    return LoadedModel(model, networks, params, ready, *options)


def require_known(what: str, given: str, known: Sequence[str]) -> None:
    """Raise AbwError for an unknown name."""
    if given not in known:
        raise AbwError(f"no {what} is called '{given}'", hint=did_you_mean(given, known))


class LoadedModel:
    """A model with its parameters, its policy and its executor; made by `load`.

    Instances are a file in the model's data format (a `Path`), or a sequence of Python objects, described for
    each format in `abw.core.data.given.objects.EXPECTED`; an instance's text, as in a file, is valid in all
    formats. `spec`: the checked spec; `executor`: computes; `outputs`: the spec's outputs.

    Calls on several threads wait for each other; to run at once they need a model each.

    A model can be copied (`copy.deepcopy`) and pickled, also for another process: the copy has the current
    weights, and its own executor, compiled or loaded from disk where the copy is made. A policy object is
    copied along.
    """

    def __init__(
        self,
        spec: Model,
        networks: Networks,
        params: Params,
        executor: Executor,
        policy: str | Policy,
        encoding: Choice,
        seed: int,
        check_finite: bool = False,
        sample: Instances | None = None,
        threads: int | None = None,
    ) -> None:
        self.spec = spec
        self._threads = threads
        self._learner: Learner | None = None
        self._gradients: Trainer | None = None
        self._taken = 0
        self._free = True
        self._lock = RLock()  # one call at a time: the executor's memory is theirs in turns
        self.executor = executor
        self._networks = networks
        self._params = params
        self._encoding: Choice = encoding
        self._seed = seed
        self._check_finite = check_finite
        self._sample = sample
        self.outputs = outputs_of(spec)
        self._name = policy if isinstance(policy, str) else ""
        self._policy: Policy | None = None if isinstance(policy, str) else Validated(policy)
        self._passes = Passes(spec, networks, executor, self.outputs)

    def __reduce__(self) -> tuple[Any, ...]:
        policy = self._name or cast(Validated, self._policy).policy
        given = (policy, self._encoding, self._seed, self._check_finite, self._sample, self._threads)
        params = Params(self._params.values, self._params.tables)
        executor = (self.executor.name, self.executor.precision)
        return prepared, (self.spec, self._networks, params, executor, given)

    def __call__(self, instances: Given, *, errors: Errors = "raise") -> Outputs:
        """Run instances in mini-batches of the spec's size; returns their outputs in order.

        With `errors="return"`, an instance that cannot be read or run has no values, and its error stands in
        `Outputs.errors` by its number; the others are not affected. Otherwise it is raised: DataError with up
        to ten places of malformed data, or InstanceError. Errors: AbwError.
        """
        require_known("errors", errors, _ERRORS)
        with self._lock:
            return self._called(instances, errors)

    def _called(self, instances: Given, errors: Errors) -> Outputs:
        if isinstance(instances, list) and (passed := self._passed(instances)) is not None:
            return passed
        if errors == "return" and isinstance(instances, os.PathLike):
            return self._outputs(self._run(Path(instances), errors))
        wrong: dict[int, AbwError] | None = {} if errors == "return" else None
        piece = objects_piece(self.read_some(instances, wrong), wrong or {})
        left: list[InstanceError] = []
        found = self.columns(piece.instances, left.append if errors == "return" else None)
        return self._outputs([(piece, found, left)])

    def _passed(self, instances: list[object]) -> Outputs | None:
        """Run instances of one mini-batch by one compiled pass; None where that is not to be taken."""
        if self._check_finite or not 0 < len(instances) <= self.spec.data.batch:
            return None
        made = self._passes.next(self._ready)
        if made is None:
            return None
        self._current()
        return made.objects(instances)

    def passed(
        self, instances: list[Any], numbers: NDArray[np.int64], vertices: int
    ) -> tuple[tuple[Column, ...], Sequence[str | int] | None] | None:
        """The outputs of instances with `numbers` (n,) by one pass, and their names if the data has some.

        None where the ordinary way is to be taken, or they have more than so many vertices.
        """
        if self._check_finite or (made := self._passes.make(self._ready())) is None:
            return None
        self._current()
        return made.columns(instances, numbers, vertices)

    def stream(self, file: str | os.PathLike[str], *, errors: Errors = "raise") -> Iterator[Outputs]:
        """Run a file's instances, some mini-batches at a time, in bounded memory; yields their outputs.

        `-` is standard input. `errors`, and what is raised, are those of a call; instances are numbered
        within each yielded part.
        """
        require_known("errors", errors, _ERRORS)
        pieces = self._run(Path(file), errors)
        while True:
            with self._lock:
                if (piece := next(pieces, None)) is None:
                    return
                found = self._outputs([piece])
            yield found

    def _run(self, file: Path, errors: Errors) -> Iterator[_Run]:
        """Run the instances of a file, piece by piece; with "return", failing instances are collected."""

        def parts() -> Iterator[Part]:
            for piece in self._pieces(file, errors):
                left: list[InstanceError] = []
                leave_out = left.append if errors == "return" else None
                yield self._part(piece.instances, leave_out, told=(piece, left))

        for part, columns in self._through(parts()):
            piece, left = part.told
            yield piece, columns, left

    def _pieces(self, file: Path, errors: Errors) -> Iterator[Piece]:
        """Read the instances of a file, piece by piece."""
        data = self.spec.data
        with open_feed(file) as feed:
            (first, size), skip = read_ahead(data.batch), errors == "return"
            found = chunks_of(self.spec, feed, size, first=first, limit=data.limit, skip_bad=skip)
            wanted = feed.size is not None and bool(self._current().twins())  # as `abw run` reads
            with overlapping(found, wanted=wanted) as chunks:
                yield from map(chunk_piece, chunks)

    def read(self, instances: Given) -> Instances:
        """Read instances as arrays of their vertices, links and fields. Errors: DataError, AbwError.

        TypeError for a bare text, a number or None, which are neither a file nor a sequence of instances.
        """
        return self.read_some(instances, None)

    def read_some(self, instances: Given, errors: dict[int, AbwError] | None) -> Instances:
        """Read instances; with `errors`, malformed ones are left out, and added to it by their numbers."""
        if isinstance(instances, Instances):
            return conform(instances, self.spec.given)
        data = self.spec.data
        if not isinstance(instances, list):  # which takes no time to tell
            if isinstance(instances, os.PathLike):
                return read_instances(replace(data, path=Path(instances)), None)
            require_instances(instances)
        return read_objects(
            instances,
            data.format,
            frequency=data.frequency,
            tokens=data.tokens,
            schema=self.spec.given,
            errors=errors,
        )

    def graph(self, instances: Given) -> Graph:
        """Construct the dataflow graph of all instances as one mini-batch, after growth."""
        workload = open_workload(self.spec, self.read(instances), self._networks)
        workload = whole(workload, executor=self.executor)
        return workload.graph(0, len(workload.instances))

    def schedule(self, graph: Graph, policy: str | Policy | None = None) -> Schedule:
        """Schedule a graph by the model's policy or another one: a name, or an object with `schedule(dag)`.

        A policy that must be learned is learned from the spec's data. Errors: AbwError for an unknown name,
        and if an object's schedule does not fit the graph.
        """
        if policy is None:
            chosen = self._ready()
        else:
            chosen = self._named(policy) if isinstance(policy, str) else Validated(policy)
        return self._networks.scheduled(chosen, graph)

    def plan(self, graph: Graph, schedule: Schedule | None = None) -> Plan:
        """Plan the memory of a schedule, by default the model's own. Errors: AbwError for a wrong one."""
        given = self.schedule(graph) if schedule is None else checked(schedule, graph.dag, "schedule")
        return plan(graph, self.executor.arrange(graph, given))

    def run(self, planned: Plan) -> Result:
        """Execute a plan. Read the result before the next run, which reuses the memory."""
        return self._current().run(planned)

    def _current(self) -> Executor:
        """The executor, updated with the weights of training."""
        if self._learner is not None and self._taken != self._learner.passes.changes:
            self.executor.update(self._params)
            self._taken = self._learner.passes.changes
        return self.executor

    def trainer(self, policy: str | Policy = "sufficient", *, seed: int | None = None) -> Trainer:
        """Make a trainer by the spec's section `train`; the model uses the weights that it learns.

        Training begins with the current weights. Words of tables without a vocabulary are hashed (`abw train`
        makes a vocabulary of the training data). Errors: AbwError for a model that cannot be trained.
        """
        if self.executor.precision != "float32":
            raise AbwError(
                f"weights of {self.executor.precision} are not trained: training keeps them in float32",
                hint="load the model without precision, and load what was trained with it",
            )
        chosen = get_policy(policy) if isinstance(policy, str) else Validated(policy)
        name, used = self.executor.name, self._seed if seed is None else seed
        teach, model = Teacher(self.spec), finished_model(self.spec)
        networks = open_networks(model, "cell") if self.spec.growth else self._networks
        learner = Learner(model, networks, self._params, chosen, name, self._threads, seed=used)
        self._params, self._learner = learner.params, learner
        self._taken = -1

        def workload(instances: object) -> Workload:
            return open_workload(model, teach(self.read(cast(Given, instances))), networks)

        return Trainer(learner, workload)

    def gradients(self, instances: Given) -> tuple[float, dict[str, Floats]]:
        """Compute the loss of instances by the section `train`, and its gradients by parameter and table.

        Errors: those of a call, and AbwError for a model that cannot be trained.
        """
        with self._lock:
            if self._gradients is None:
                self._gradients = self.trainer()
            loss, vector = self._gradients.gradient(instances)
        found, at = {}, 0
        for name, value in self.params.items():
            found[name] = vector[at : at + value.size].reshape(value.shape)
            at += value.size
        return loss, found

    def build(
        self,
        file: str | os.PathLike[str],
        *,
        target: BuildTarget | Sequence[BuildTarget] = "native",
        beside: bool = False,
    ) -> dict[str, Any]:
        """Write the model as a shared library of C, and its header beside it; returns what was written.

        `target`: native, or families of processors, of which the best is taken when the library is loaded.
        `beside`: the weights go to a file of their own, which `abw_load` is given. Errors: AbwError where the
        model has no compiled pass, with the reason, and without a C compiler. Cost: some 2 s a target, the
        first time 10 s.
        """
        targets = (target,) if isinstance(target, str) else tuple(target)
        for name in targets:
            require_known("target", name, get_args(BuildTarget))
        self._current()
        source = Source(self.spec, self._networks, self._params, self._ready(), self.outputs)
        return build_library(source, Path(file), targets, self.executor.precision, beside=beside)

    def warm(self) -> int:
        """Compile or load what a call needs by running some of the spec's data; returns how many instances.

        Errors: those of `read` and of a call. Cost: up to some seconds if nothing is on disk yet.
        """
        sample, used = self._sampled(min(64, self.spec.data.batch))
        for windows in ([(0, used)], [(0, 1)]):
            for _ in self.columns(sample.instances, windows=windows):
                pass
        if (made := self._passes.make(self._ready())) is not None:
            made.objects(["("])  # what reads texts is compiled, whatever it makes of this one
        return used

    @property
    def network(self) -> Network:
        """The types of nodes with their cells, and what may flow between them."""
        return self._networks.network

    @property
    def params(self) -> Mapping[str, Floats]:
        """The parameters and tables by their names (`abw weights`), read-only."""
        network = self._networks.cells
        names = [*(p.name for p in network.params), *(t.name for t in network.tables)]
        found = {}
        for name, value in zip(names, (*self._params.values, *self._params.tables), strict=True):
            found[name] = value.view()
            found[name].flags.writeable = False
        return found

    def __repr__(self) -> str:
        types = ", ".join(t.name for t in self.network.types)
        outputs = ", ".join(output.name for output in self.outputs)
        numbers = sum(value.size for value in self.params.values())
        return f"LoadedModel {self.spec.name}: types {types}; outputs {outputs}; {numbers:,} parameters"

    def _outputs(self, pieces: Iterable[_Run]) -> Outputs:
        """Concatenate the outputs of pieces."""
        return gathered(
            self.outputs,
            (
                (piece, ((*window, columns) for window, columns in found), left)
                for piece, found, left in pieces
            ),
        )

    def columns(
        self,
        instances: Instances,
        leave_out: Callable[[InstanceError], None] | None = None,
        windows: Iterable[tuple[int, int]] | None = None,
    ) -> Columns:
        """Run instances; yields each mini-batch with a column for each of the model's `outputs`.

        `windows`: other mini-batches than those of the spec's size. `leave_out` is called with instances that
        the model cannot be run on; without it, the error is raised.
        """
        if not len(instances):
            return
        for _, columns in self._through([self._part(instances, leave_out, windows)]):
            yield from columns

    def _part(
        self,
        instances: Instances,
        leave_out: Callable[[InstanceError], None] | None,
        windows: Iterable[tuple[int, int]] | None = None,
        told: object = None,
    ) -> Part:
        """Bind instances to the model, with their mini-batches."""
        workload = open_workload(self.spec, instances, self._networks)
        return Part(workload, list(workload.windows() if windows is None else windows), leave_out, told)

    def _through(self, parts: Iterable[Part]) -> Iterator[tuple[Part, Columns]]:
        """Run parts, in parallel unless another call's mini-batches are still running in parallel."""
        executor, free = self._current(), self._free
        self._free = False
        try:
            finite = self._check_finite
            runner = PartRunner(
                self._ready(),
                executor,
                Clock(*PHASES),
                self._passes,
                check_finite=finite,
                keep_all=finite,
                alone=not free,
                reuse=True,
            )
            for part, _, found in runner.run(parts):
                yield part, (((done.batch.first, done.batch.last), done.columns()) for done in found)
        finally:
            self._free |= free

    def _ready(self) -> Policy:
        """The model's policy."""
        if self._policy is None:
            self._policy = self._named(self._name)
        return self._policy

    def _named(self, name: str) -> Policy:
        """A policy by its name: a rule, or learned, from disk or from the spec's data."""
        asked = Asked(name, self._encoding, self._seed, self.spec.data.batch)
        asked = asked.on(self._networks.network, self.executor.name)
        return policy_of(self._networks, asked, lambda: self._sampled(asked.instances), Quiet())

    def _sampled(self, count: int) -> tuple[Workload, int]:
        """Instances for learning a policy, grown, and how many of them can be used."""
        if not self._sample:
            return open_sample(self.spec, self._networks, count, executor=self.executor)
        sample = whole(open_workload(self.spec, self._sample, self._networks), executor=self.executor)
        return sample, min(count, len(self._sample))
