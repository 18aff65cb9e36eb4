"""Instances as they come, chunk after chunk: run, checked, counted, written, in bounded memory."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.ahead import overlapping
from abw.core.base.errors import AbwError, InstanceError
from abw.core.base.progress import Clock, Progress
from abw.core.data.feed import Feed
from abw.core.data.instances import Instances
from abw.core.data.stream import Bad, Chunk
from abw.core.data.vertices import INSTANCE, KIND, FieldColumn
from abw.core.exec.agreement import compare
from abw.core.exec.interface import Executor, Profiler, Result
from abw.core.exec.params import Params
from abw.core.exec.precision import allowed
from abw.core.exec.reference import ReferenceExecutor
from abw.core.graph.bounds import lower_bound
from abw.core.graph.graph import Graph, ResultRefs
from abw.core.ir.answers import AS_IT_IS
from abw.core.ir.growth import DecisionOutput
from abw.core.ir.model import Model
from abw.core.plan.check import check_plan
from abw.core.policy.check import check_schedule
from abw.core.policy.registry import get_policy
from abw.core.policy.schedule import Policy
from abw.core.policy.trace import ready_counts
from abw.core.run.abreast import Found, Part, read_parts
from abw.core.run.finite import not_finite, refuse_values
from abw.core.run.footprint import footprint_of
from abw.core.run.growing.grow import Grown
from abw.core.run.growing.recheck import recheck
from abw.core.run.history import history_of
from abw.core.run.minibatches import MiniBatch
from abw.core.run.resident import Resident
from abw.core.run.sums import COMPARED, Sums
from abw.core.run.workload import Networks, Workload, chunks_of, open_workload
from abw.core.store.answers import answered, fields_of
from abw.core.store.grown import GrownWriter
from abw.core.store.history import save_history
from abw.core.store.outputs import Column, Output, Rows, Writer, with_bad
from abw.core.store.runs import save_batch

TOLERANCE = 1e-5
"""The largest error, relative to an output's root mean square, that `verify` accepts."""
TOLD = 10
"""So many of the mistakes in instances that are left out stand in a run's report."""
READ_AHEAD = 1024
"""So many instances are read together at most, in whole mini-batches."""
AT_FIRST = 256
"""So many at first, or 16 mini-batches if that is less: so that all threads soon have something to do."""
STRETCH = 1024
"""Mini-batches that run side by side wait for each other after about so many instances, and are looked at."""


@dataclass(frozen=True, slots=True)
class Job:
    """What all mini-batches of a run have in common.

    `grown`: where instances go when they have grown, if anywhere.

    `params`: of the reference, if every node shall be compared with it. `profiler`: the executor's, if it
    shall say where its time goes. `folder`: where graphs and schedules are kept; None: nowhere, and
    nothing is compared. `check_finite`: whether a value that is not finite ends the run.
    """

    model: Model
    networks: Networks
    policy: Policy
    executor: Executor
    folder: Path | None
    outputs: tuple[Output, ...]
    writer: Writer
    grown: GrownWriter | None
    params: Params | None
    profiler: Profiler | None
    skip_bad: bool
    check_finite: bool
    clock: Clock
    held: Resident
    progress: Progress


def run_stream(job: Job, feed: Feed) -> Sums:
    """Run all instances of a file or pipe. Errors: DataError, SpecError, AbwError; OSError of the writer."""
    return _Run(job, feed).run()


def read_ahead(batch: int) -> tuple[int, int]:
    """How many instances are read together for mini-batches of `batch`: at first, and at most."""
    most = max(1, READ_AHEAD // batch)
    return batch * min(most, max(2, min(16, AT_FIRST // batch))), batch * most


class _Run:
    """A run under way."""

    def __init__(self, job: Job, feed: Feed) -> None:
        self.job = job
        self.feed = feed
        self.sums = Sums()
        self.first = feed.seen
        self.told: deque[Bad] = deque()  # left out, perhaps by another thread
        self.owed: list[Bad] = []  # the same by their lines, not yet written
        self.begun = time.perf_counter()
        self.looking = 0.0

    def run(self) -> Sums:
        self.job.progress.phase("run", self.feed.size)
        # reading from a pipe may wait for ever; a thread that does so could not be ended
        file, executor = self.feed.size is not None, self.job.executor
        wanted = bool(executor.abilities.overlaps or executor.twins()) and file
        with overlapping(self._chunks(), wanted=wanted) as chunks:
            for some in self._stretches(self._parts(chunks), file=file):
                self._stretch(some)
                if not file:
                    self._write(self._nothing())
        self._write(self._nothing())
        self.sums.seconds = time.perf_counter() - self.begun - self.looking
        return self.sums

    def _stretches(self, parts: Iterator[Part], *, file: bool) -> Iterator[Iterable[Part]]:
        """Parts that are run as one; between them is time to look at what was run."""
        if not file:  # which are run before the next are waited for
            yield from ([part] for part in parts)
            return
        seen = 0

        def stretch(part: Part) -> int:
            nonlocal seen
            seen += len(part.workload.instances)
            return (seen - 1) // STRETCH

        yield from (some for _, some in groupby(parts, stretch))

    def _parts(self, chunks: Iterator[tuple[Chunk[Instances], int]]) -> Iterator[Part]:
        """Each chunk's instances with their mini-batches; it is told what was taken of the feed before them,
        and what each of them has of it.
        """
        before = self.feed.taken
        for chunk, taken in chunks:
            self.told += chunk.bad
            if len(chunk.instances):
                with self.job.clock("construct"):
                    workload = open_workload(self.job.model, chunk.instances, self.job.networks)
                leave_out = partial(self._leave_out, workload.instances) if self.job.skip_bad else None
                share = (taken - before) / len(chunk.instances)
                yield Part(workload, list(workload.windows()), leave_out, (before, share))
            elif self.feed.size is None:  # somebody may wait for it
                self._write(self._nothing())
            before = taken

    def _chunks(self) -> Iterator[tuple[Chunk[Instances], int]]:
        """Each chunk, and what of the feed is taken with it."""
        data, clock = self.job.model.data, self.job.clock
        first, size = read_ahead(data.batch)
        found = chunks_of(
            self.job.model, self.feed, size, first=first, limit=data.limit, skip_bad=self.job.skip_bad
        )
        while True:
            waited = self.feed.waited
            with clock("read"):
                chunk = next(found, None)
            clock.seconds["read"] -= self.feed.waited - waited
            clock.seconds["wait"] += self.feed.waited - waited
            if chunk is None:
                return
            yield chunk, self.feed.taken

    def _leave_out(self, instances: Instances, error: InstanceError) -> None:
        """Note an instance that the model cannot be run on."""
        name = instances.names[error.instance] if instances.names else ""
        self.told.append(Bad(int(instances.lines[error.instance]), error.problems[0].message, name))

    def _stretch(self, parts: Iterable[Part]) -> None:
        """Run the mini-batches of some parts: check, count, write."""
        job = self.job
        keep_all = job.params is not None or job.check_finite
        # to verify takes the values of all nodes, after they were written
        alone = job.params is not None
        later: list[Callable[[], None]] = []
        for part, abreast, found in read_parts(
            parts, job.policy, job.executor, job.clock, self._read, keep_all=keep_all, alone=alone
        ):
            self.sums.abreast = max(self.sums.abreast, abreast)
            # what looks at them would go on beside the next, so that its time would not count
            self._part(part, found, later if abreast else None)
        begun = time.perf_counter()
        for waiting in later:
            waiting()
        self.looking += time.perf_counter() - begun

    def _part(self, part: Part, found: Found[Rows], later: list[Callable[[], None]] | None) -> None:
        """Those of one part, at which to look `later`, or at once."""
        job, sums, clock = self.job, self.sums, self.job.clock
        workload, (before, share) = part.workload, part.told
        in_pieces = set()
        for batch, result, read in found:
            nodes = result.nodes
            needed = footprint_of(batch)
            if sums.needed is None or needed.total > sums.needed.total:
                sums.needed = needed
            look = partial(self._look_at, workload, batch, result, sums.mini_batches)
            if later is not None:
                later.append(look)
            else:  # a device may still be at it: what needs no result comes before what does
                look()
            job.held.mark("mini-batch", sums.mini_batches)
            sums.mini_batches += 1
            sums.instances += nodes.instances
            sums.nodes += len(nodes)
            sums.batches += batch.batches
            sums.executed.add(result.counts)
            sums.unseen_states += batch.unseen
            if batch.grown is not None and job.model.growth:
                sums.grown.add(batch.grown, job.model.growth.grown)
            if batch.piece:
                in_pieces.add(batch.window)
            with clock("execute"):
                rows = read()
            sums.not_finite += sum(map(not_finite, rows.columns))
            if job.params:
                if batch.grown is not None:
                    check_schedule(batch.dag, batch.schedule)
                for made in batch.executed:
                    check_schedule(made.graph.dag, made.schedule)
                    check_plan(made.graph, made)
                sums.max_error = max(sums.max_error, self._verified(workload, batch, result))
            if job.profiler:
                job.profiler.sample(batch.plan)
            if batch.grown is not None and job.grown is not None:
                with job.clock("write"):
                    job.grown.write(batch.grown.instances)
            self._write(rows)
            self._tell(int(before + share * batch.last))
        sums.in_pieces += len(in_pieces)

    def _read(self, part: Part, batch: MiniBatch, result: Result) -> Rows:
        """What a mini-batch gave, perhaps on another thread. Errors: AbwError for what is not finite."""
        rows = _rows(part.workload, batch, result)
        if self.job.check_finite:
            refuse_values(batch, result, part.workload.instances)
        return rows

    def _verified(self, workload: Workload, batch: MiniBatch, result: Result) -> float:
        """The largest error of any node; of a mini-batch that has grown its decisions are made again, too."""
        job, grown = self.job, batch.grown
        graph = batch.graph if grown else workload.unfused(batch.first, batch.last)
        worst, expected = _compared(job, graph, result)
        if grown is not None and workload.ground is not None:
            sprouter, name = workload.ground.sprouter, job.executor.name
            tolerance = allowed(job.executor.precision, TOLERANCE)
            found = recheck(sprouter, grown.instances, expected, tolerance, name, grown.picks)
            self.sums.grown.decisions += found.decisions
            self.sums.grown.close += found.close
        return worst

    def _look_at(self, workload: Workload, batch: MiniBatch, result: Result, number: int) -> None:
        """Compare mini-batch `number` with what there could be, and keep it if it is one of the first."""
        sums, kept = self.sums, self.sums.keeps(number)
        if self.job.folder is None or not (kept or batch.grown is None):
            return
        bound = int(lower_bound(batch.dag).sum())
        sums.whole += 1
        sums.lower_bound += bound
        sums.executed.avoid(result.counts, batch.plan.counts)
        if not kept:
            return
        graph, dag, schedule = batch.graph, batch.dag, batch.schedule
        save_batch(self.job.folder, number, graph, dag, schedule, ready_counts(dag, schedule))
        if batch.grown is not None:
            with self.job.clock("write"):
                save_history(self.job.folder, number, history_of(workload, batch, result))
        for name in COMPARED:
            sums.of_kept.compared[name] += len(get_policy(name).schedule(dag))
        sums.of_kept.batches += len(schedule)
        sums.of_kept.lower_bound += bound

    def _write(self, rows: Rows) -> None:
        """Write rows, and between them what was left out; without rows, all of it that is still owed."""
        while self.told:
            self.owed.append(self.told.popleft())
        self.owed.sort(key=lambda b: b.line)
        count = sum(len(rows) == 0 or b.line < rows.lines[-1] for b in self.owed)
        bad, self.owed = self.owed[:count], self.owed[count:]
        if bad or len(rows):
            with self.job.clock("write"):
                number = self.first + self.sums.instances + self.sums.skipped - len(rows)
                self.job.writer.write(with_bad(rows, bad, number, self.job.outputs))
        self.sums.skipped += len(bad)
        self.sums.complaints += [b.message for b in bad[: TOLD - len(self.sums.complaints)]]

    def _nothing(self) -> Rows:
        columns = tuple(output.nothing for output in self.job.outputs)
        return Rows((), np.empty(0, np.int32), columns, ())

    def _tell(self, taken: int) -> None:
        done = self.sums.instances + self.sums.skipped
        rate = done / (time.perf_counter() - self.begun)
        self.job.progress.reached(taken, f"{done} instances, {rate:.0f}/s")


def _rows(workload: Workload, batch: MiniBatch, result: Result) -> Rows:
    """What a mini-batch gave."""
    instances, first, last = workload.instances, batch.first, batch.last
    names = instances.names[first:last] if instances.names else ("",) * (last - first)
    columns = columns_of(workload, batch, result)
    return Rows(names, instances.lines[first:last], columns, ("",) * (last - first))


def columns_of(workload: Workload, batch: MiniBatch, result: Result) -> tuple[Column, ...]:
    """The outputs of a mini-batch: what nodes give, then decisions."""
    model, grown = workload.model, batch.grown
    start = grown.order.start if grown else workload.instances.start[batch.first : batch.last + 1]
    base = start[0]
    given = tuple(_column_of(refs, result, start - base) for refs in result.nodes.results)
    if model.answers:
        instances = grown.instances if grown else workload.instances
        given = tuple(
            _answered(column, refs.vertex + base, model, refs.name, instances)
            for column, refs in zip(given, result.nodes.results, strict=True)
        )
    if grown is None or model.growth is None:
        return given
    kinds = workload.instances.schema.kinds
    return (*given, *(_decided(output, grown, kinds) for output in model.growth.outputs))


def _decided(output: DecisionOutput, grown: Grown, kinds: Sequence[str]) -> Column:
    """What was decided, as an output of finished instances."""
    columns, order = grown.columns, grown.order
    wanted = np.array([name in output.kinds for name in kinds])
    vertex = np.flatnonzero(wanted[columns[KIND][order.vertex]])
    own = order.vertex[vertex]
    values = columns[FieldColumn(output.decision.name)][own]
    if output.decision.how == "best":  # the others are of hypotheses that were given up
        there = values >= 0
        vertex, own, values = vertex[there], own[there], values[there]
    instance = columns[INSTANCE][own]
    counts = np.bincount(instance, minlength=len(order.start) - 1)
    return Column(values, counts, (vertex - order.start[instance] - 1).astype(np.int32))


def _column_of(refs: ResultRefs, result: Result, start: NDArray[np.int64]) -> Column:
    """An output of a mini-batch whose instances begin at the vertices `start` (n + 1,), its first at 0."""
    values = np.asarray(result.values(refs.reference), np.float32)
    if not len(values):  # what is nowhere was not computed: only the network knows its shape
        network = result.nodes.network
        t, o = dict(network.outputs)[refs.name][0]
        values = values.reshape(0, *network.types[t].outputs[o].shape)
    if len(start) == 2:  # a single instance waits for its answer
        return Column(values, np.array([len(values)]), refs.vertex - np.int32(1))
    counts = np.bincount(refs.instance, minlength=len(start) - 1)
    return Column(values, counts, (refs.vertex - start[refs.instance] - 1).astype(np.int32))


def _answered(
    column: Column, vertices: NDArray[np.integer[Any]], model: Model, name: str, instances: Instances
) -> Column:
    """An output as the answer that the model wants of it."""
    answer = model.answers.get(name, AS_IT_IS)
    if answer == AS_IT_IS:
        return column
    values, shares = answered(column.values, answer)
    lost = not_finite(column) if answer.form == "label" else 0
    beside = fields_of(instances, vertices, answer.fields, model.data.seed)
    return replace(column, values=values, shares=shares, fields=beside, lost=lost)


def _compared(job: Job, graph: Graph, result: Result) -> tuple[float, Result]:
    """The largest error of any node's outputs against the reference executor's, and that. Errors: AbwError.

    `graph` has every reduction as a node: so the reference computes them.
    """
    reference = ReferenceExecutor()
    assert job.params
    reference.prepare(graph.network, job.params)
    expected = reference.run_graph(graph)
    worst = max(compare(result, expected, job.networks.fusion), key=lambda d: d.error, default=None)
    if worst is None:
        return 0.0, expected
    precision = job.executor.precision
    if not worst.error <= (limit := allowed(precision, TOLERANCE)):
        single = "where the model divides by what may be near 0, rounding can do that: see --executor blas. "
        coarse = f"weights of {precision} may be too coarse for this model: see without --precision. "
        raise AbwError(
            f"executor '{job.executor.name}' is wrong: output '{worst.output}' of type '{worst.type}' "
            f"differs from the reference by {worst.error:.2e} of its root mean square "
            f"(allowed: {limit:.0e})",
            hint=(single if precision == "float32" else coarse)
            + "Else it is a defect of abw: please report it with the spec and the data",
        )
    return worst.error, expected
