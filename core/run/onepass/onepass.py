"""The pass of a loaded model: texts, or bound instances, to outputs in one compiled call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.base.progress import Times, uncounted
from abw.core.data.given.objects import text_of
from abw.core.data.given.written import Writer, parting
from abw.core.data.readers.words import masks_of
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.cpu.launch import Launcher
from abw.core.exec.interface import Executor, Result, TooLargeError
from abw.core.graph.bind import Binding as Bound
from abw.core.ir.model import AS_IT_IS, Model
from abw.core.jit.decorators import is_on_disk
from abw.core.jit.pointers import Table
from abw.core.plan.counts import Counts
from abw.core.policy.schedule import Policy
from abw.core.run.columns import answered, answered_column
from abw.core.run.minibatches import Passed, Planned
from abw.core.run.onepass import bind, build, finish, schedule
from abw.core.run.onepass import state as at
from abw.core.run.onepass.binding import Binding, CannotPassError, Format, binding_of, format_of
from abw.core.run.onepass.growing import stages as grow
from abw.core.run.onepass.growing.finished import finished_binding
from abw.core.run.onepass.growing.growth import Growing
from abw.core.run.onepass.loop import answer, go_on
from abw.core.run.onepass.rules import Rule, rule_of
from abw.core.run.onepass.state import Stage
from abw.core.run.onepass.workspace import Phases, Workspace
from abw.core.run.workload import Networks, Workload
from abw.core.store.outputs import Column, Output
from abw.core.store.ragged import Outputs, Ragged

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

# The call of a few instances, and the mini-batches of one, from which on a pass is worth its machine code.
SECOND, WORTH_IT = 2, 16

# Seconds that a pass spares for a node of a model that grows, against the ordinary way, which such a
# mini-batch takes where equal nodes are looked for: 380 to 740 ns.
SPARED = 400e-9


def refusal(model: Model, networks: Networks, policy: Policy) -> str:
    """Return why calls of a model on the executor cpu go step by step; '' if they are one pass."""
    growth = networks.growth_model
    late = _refusal(finished_binding, growth) if growth and growth.phases.after else ""
    for there, what in (
        (numba.config.DISABLE_JIT, "nothing is compiled (NUMBA_DISABLE_JIT)"),  # type: ignore[attr-defined]
        (networks.ops, "its nodes are operations (granularity op)"),
        (networks.fusion, "reductions are read in place (--fuse)"),
        (late, late),
        (
            growth and any(form.fields for form in model.answers.values()),
            "the model grows, and outputs have fields of vertices",
        ),
        (networks.groups, "types are grouped (--group)"),
        (
            growth and networks.equal and networks.equal.mode == "on",
            "the model grows, and equal nodes are looked for (--dedup on)",
        ),
        (rule_of(policy, networks.program.edges.order) is None, "no compiled stage schedules by its policy"),
    ):
        if there:
            return what
    return ""


def texts_refusal(model: Model, networks: Networks) -> str:
    """Return why a model's texts are read by steps; '' if a pass reads them."""
    return _refusal(_binding, model, networks)


def _refusal(bind: Callable[..., object], *what: object) -> str:
    """Why something cannot be bound to its data by steps; '' if it can."""
    try:
        bind(*what)
    except CannotPassError as error:
        return str(error)
    return ""


class Pass:
    """A model's passes on an executor, scheduled by a policy with compiled stages."""

    def __init__(
        self,
        model: Model,
        networks: Networks,
        executor: CpuExecutor,
        walking: Launcher,
        rule: Rule,
        outputs: Sequence[Output],
        growing: Growing | None = None,
    ) -> None:
        """Compile the stages, or find them on disk: some 10 s once on a machine."""
        self._space = Workspace(model, networks, executor, walking, rule.arrays, rule.numbers, growing)
        self._growing = growing
        self._outputs, self._format, self._answers = outputs, model.data.format, model.answers
        self._model, self._networks, self._equal = model, networks, networks.equal
        self._binding: Bound | None = None
        self._numbered = False
        phases = _phases(rule, networks.equal is not None)
        if growing is not None:
            late = growing.run_after(self._space.copy(), rule.stages) if growing.model.phases.after else ()
            grown = grow.reserve, finish.walk, grow.begin, grow.go_on, grow.order, *late, grow.results
            phases["execute"] = grown
        self._stages = (*chain(*phases.values()),)
        self._edges, self._executor = schedule.successors in rule.stages, executor
        self._bound = [(phase, self._space.stages(some)) for phase, some in phases.items()]

    @cached_property
    def reading(self) -> tuple[Stage, ...]:
        """Load or compile the stages that run texts; none if `texts_refusal` gives a reason."""
        model = self._model
        try:
            read, binding = _binding(model, self._networks)
        except CannotPassError:
            return ()
        kinds = model.schema.kinds
        arrays: dict[int, NDArray[Any]] = {at.HALVES: np.array(read.halves, np.int64)}
        numbers = {at.TAGGED: int(model.data.format == "tags"), at.KINDS: len(kinds)}
        if tokens := model.data.tokens and masks_of(model.data.tokens):
            arrays[at.TOKENS], numbers[at.TOKENS_MANY] = tokens
        self._space.read(binding, arrays, numbers)
        if self._growing is not None:
            self._growing.read(binding, kinds)
        return (read.stage, bind.bind, *self._stages)

    @cached_property
    def _texted(self) -> Phases:
        return [("", self._space.stages(self.reading))] if self.reading else []

    @cached_property
    def _writer(self) -> Writer:
        return Writer(self._format)

    def table(self) -> Table:
        """The words of passes of texts, for a workspace elsewhere, which has its own block and arenas."""
        return self._space.table(self.reading)

    def objects(self, instances: list[Any]) -> Outputs | None:
        """Return the outputs of instances; None if the steps have to run."""
        if self._read(instances) != at.FINE:
            return None
        return Outputs({o.name: Ragged(*parts, o.words, shares) for o, parts, shares in self._given()})

    def columns(
        self, instances: list[Any], numbers: NDArray[np.int64], vertices: int
    ) -> tuple[tuple[Column, ...], Sequence[str | int] | None] | None:
        """The outputs of instances with these `numbers` (n,), of at most so many vertices, and their names;
        None where the ordinary way is to be taken.
        """
        if self._read(instances, numbers, vertices) != at.FINE:
            return None
        parts = ((*given, shares) for _, given, shares in self._given())
        found = tuple(Column(v, np.diff(offsets), vertex, shares) for v, offsets, vertex, shares in parts)
        return found, self._space.names() if self._format == "json" else None

    def _given(self) -> Iterator[tuple[Output, tuple[Any, Longs, Ints], Any]]:
        """Yield each output, what `Workspace.columns` has of it, as it is answered, and probabilities."""
        for output, (values, offsets, vertex) in zip(self._outputs, self._space.columns(), strict=True):
            answer = self._answers.get(output.name, AS_IT_IS)
            given, shares = answered(values, answer) if answer != AS_IT_IS else (values, None)
            yield output, (given, offsets, vertex), shares

    def bound(
        self,
        workload: Workload,
        first: int,
        last: int,
        times: Times = uncounted,
        *,
        apart: bool = False,
        looks: bool | None = None,
    ) -> tuple[Column, ...] | None:
        """The outputs of bound instances `first` to `last` (exclusive); None as above.

        `apart`: nothing that earlier mini-batches have computed is used. `looks`: whether equal nodes are
        looked for; None: where that has paid lately.
        """
        if self._binding is not workload.binding:
            self._binding, self._numbered = workload.binding, True
            if self._growing is None or workload.growing is None:
                self._space.bind(workload.binding)
            else:
                self._space.bind(workload.growing.before(workload.binding))
                self._growing.bind(workload.growing)
        if self._run(self._bound, None, first, last, times, apart=apart, looks=looks) != at.FINE:
            return None
        found, start = [], workload.instances.start[first:last]
        for output, (values, offsets, vertex) in zip(self._outputs, self._space.columns(), strict=True):
            counts = np.diff(offsets)
            column = Column(values, counts, vertex)
            if output.name in self._answers:
                vertices = np.repeat(start, counts) + vertex + 1
                column = answered_column(column, vertices, workload.model, output.name, workload.instances)
            found.append(column)
        return tuple(found)

    def passed(self, workload: Workload, first: int, last: int, *, copied: bool) -> Passed:
        """What the last call of `bound` has made of instances; another run spoils it unless it is copied."""
        made = self._space.made(edges=self._edges, copied=copied)

        def planned() -> Planned:
            graph = made.graph(workload.binding, first, last)
            found = made.schedule()
            return Planned(graph, graph.dag, found, made.plan(graph, found))

        return Passed(made.nodes, made.batches, planned, made.equal_nodes)

    def result(self, passed: Passed) -> Callable[[], Result]:
        """Return a view of the values of the last call of `bound`, valid until the executor runs again."""
        read = self._executor.reader_of(lambda: passed.planned.plan)
        counts = Counts(passed.batches, passed.batches, 0, 0)  # each operand is read where it lies
        return lambda: Result(passed.planned.graph, counts, read)

    def kernels(self) -> None:
        """Run only the kernels of the last pass once more, for measurements."""
        self._space.run([("", self._space.stages((finish.walk,)))], self._space.text, 0, 0)

    def _read(
        self, instances: list[Any], numbers: NDArray[np.int64] | None = None, vertices: int = at.ENDLESS
    ) -> int:
        """Run a pass of texts; how it ends."""
        if not self._texted:
            return at.OTHER
        self._binding = None
        if self._growing is not None:
            self._growing.texts()
        if self._model.data.tokens and not all(isinstance(given, str) for given in instances):
            return at.OTHER
        text = self._writer.write(instances)
        if text is None:
            try:
                texts = [text_of(number, given, self._format) for number, given in enumerate(instances)]
            except AbwError:  # the ordinary way says what is wrong
                return at.OTHER
            text = np.frombuffer(parting(self._format).encode().join(texts), np.uint8)
        if not len(text):
            return at.WRONG
        if numbers is not None or self._numbered:
            self._numbered = numbers is not None
            self._space.number(numbers, vertices)
        return self._run(self._texted, text, 0, len(instances))

    def _run(
        self,
        phases: Phases,
        text: NDArray[np.uint8] | None,
        first: int,
        last: int,
        times: Times = uncounted,
        *,
        apart: bool = False,
        looks: bool | None = None,
    ) -> int:
        """Run a pass; how it ends."""
        if self._growing is not None and not self._growing.alone(last - first):
            return at.APART
        space, equal = self._space, self._equal
        if equal is not None:
            space.look_from(equal.least(looks=looks), leaves=not apart)
        try:
            ends = space.run(phases, text, first, last, times)
        except TooLargeError:
            return at.APART
        if equal is not None and ends == at.FINE:
            if looks is None:
                equal.ran(*space.spared())
            space.keep_leaves()
        return ends


def _binding(model: Model, networks: Networks) -> tuple[Format, Binding]:
    """What reads a model's texts, and the steps that bind it to them. Errors: CannotPassError."""
    data = model.data
    read = format_of(model)
    if read is None:
        what = "the pattern of `tokens`" if data.tokens else f"format {data.format}"
        raise CannotPassError(f"{what} has no compiled stage")
    for there, what in ((data.frequency, "frequency"), (data.beside, "beside")):
        if there:
            raise CannotPassError(f"the data have `{what}`")
    if any(answer.fields for answer in model.answers.values()):
        raise CannotPassError("outputs have fields of vertices")
    of = networks.cells, networks.program, read.columns, networks.growth_model
    return read, binding_of(model, *of)


def _phases(rule: Rule, looks: bool) -> dict[str, tuple[Stage, ...]]:
    """The stages behind reading and binding, by phase, of a model that does not grow."""
    return {
        "construct": (build.construct, build.look) if looks else (build.construct,),
        "schedule": rule.stages,
        "plan": (finish.plan,),
        "execute": (finish.walk, finish.results),
    }


class Passes:
    """A model's passes on an executor and its twins, made at the second call or by `make`.

    The first call alone would wait longer for machine code than the pass spares, and so would less than
    WORTH_IT mini-batches.
    """

    def __init__(
        self,
        model: Model,
        networks: Networks,
        executor: Executor,
        outputs: Sequence[Output],
    ) -> None:
        self._model, self._networks, self._executor, self._outputs = model, networks, executor, outputs
        self._made: dict[Executor, Pass] = {}
        self._calls = 0

    @property
    def made(self) -> Pass | None:
        """The passes of the executor itself, if they have been made."""
        return self._made.get(self._executor)

    def next(self, policy: Callable[[], Policy]) -> Pass | None:
        """Return the passes of the next call; None for the steps."""
        self._calls += 1
        return self.make(policy()) if self._calls == SECOND else self.made

    def of(self, policy: Policy, executor: Executor, windows: int) -> Pass | None:
        """Return the passes for so many mini-batches on the executor or a twin; None for the steps."""
        return self.make(policy, executor) if windows >= WORTH_IT or self.made else None

    def on_disk(self, policy: Policy) -> bool:
        """Whether machine code is on disk that runs bound instances, which do not grow. Cost: some 2 ms."""
        rule = rule_of(policy, self._networks.program.edges.order)
        if rule is None:
            return False
        needed: list[Callable[..., Any]] = [
            answer,
            go_on,
            *chain(*_phases(rule, self._networks.equal is not None).values()),
        ]
        return all(map(is_on_disk, needed))

    def make(self, policy: Policy, twin: Executor | None = None) -> Pass | None:
        """The passes by a policy, made now; None where there are none (`refusal`), or runs are measured."""
        model, networks, executor = self._model, self._networks, twin or self._executor
        self._calls = SECOND
        if executor in self._made:
            return self._made[executor]
        if not isinstance(executor, CpuExecutor) or refusal(model, networks, policy):
            return None
        rule, walking = rule_of(policy, networks.program.edges.order), executor.walking()
        growing, model_of = None, networks.growth_model
        if rule is None or walking is None:
            return None
        if model_of is not None:
            rounds = executor.rounds(model_of)
            if isinstance(rounds, str):
                return None
            growing = Growing(model_of, rounds, walking.limit)
        if networks.equal and growing is not None:
            networks.equal.by_steps = SPARED
        there = {self._executor, *self._executor.twins()}  # others were of earlier weights
        self._made = {other: made for other, made in self._made.items() if other in there}
        of = executor, walking, rule, self._outputs, growing
        made = self._made[executor] = Pass(model, networks, *of)
        return made
