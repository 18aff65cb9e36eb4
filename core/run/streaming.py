"""A run of a model's instances, in mini-batches that run in parallel or one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import InstanceError
from abw.core.base.progress import Clock, Progress
from abw.core.data.feed import Feed, Head, Section, open_feed
from abw.core.data.instances import Instances
from abw.core.data.read import Bad, Chunk
from abw.core.exec.interface import Executor, Result
from abw.core.exec.params import Params
from abw.core.exec.precision import allowed
from abw.core.graph.dag import Dag
from abw.core.graph.graph import Graph
from abw.core.ir.model import Model
from abw.core.policy.schedule import Policy, Schedule
from abw.core.run.checks import TOLERANCE, check_plans, compare_with_reference
from abw.core.run.columns import not_finite
from abw.core.run.growing.recheck import recheck
from abw.core.run.minibatches import MiniBatch, history_of
from abw.core.run.onepass.onepass import Passes
from abw.core.run.options import RunOptions
from abw.core.run.parallel import Done, Part, PartRunner
from abw.core.run.run import KEPT, Given, Ran, Run
from abw.core.run.workload import Networks, Workload, chunks_of, open_workload
from abw.core.store.checked import save_history
from abw.core.store.outputs import Column, Rows, Writer, open_outputs, outputs_of, with_bad
from abw.core.store.runs import OUTPUTS

# The most instances that are read together, in whole mini-batches.
READ_AHEAD = 1024
# Instances that are read first (16 mini-batches if that is less), so that all threads soon have work.
AT_FIRST = 256
# Instances after which mini-batches that run in parallel wait for each other, and are examined.
STRETCH = 1024


def read_ahead(batch: int) -> tuple[int, int]:
    """How many instances to read together for mini-batches of `batch`: at first, and at most."""
    most = max(1, READ_AHEAD // batch)
    return batch * min(most, max(2, min(16, AT_FIRST // batch))), batch * most


class ModelRun(Run[Instances, Rows]):
    """A run of a model's instances, by a policy on an executor.

    `params`: for the reference executor, if every node is to be compared with it. `pipe`: the source of
    instances instead of the model's data.
    """

    keys = (
        "abreast instances skipped complaints batch mini_batches in_pieces nodes equal_nodes batches "
        "lower_bound compared kept kept_lower_bound kept_bound_by_rounds unseen_states launches "
        "memory_kernels bytes_moved memory_kernels_avoided bytes_avoided seconds instances_per_second "
        "not_finite growth max_error training output shard grown trace date versions command "
        "peak_memory_bytes memory resident auto_batch profile"
    )
    usual = OUTPUTS
    phases = ("read", "construct", "schedule", "plan", "execute")
    options: RunOptions

    networks: Networks
    policy: Policy
    passes: Passes | None = None
    params: Params | None = None
    pipe: Head | None = None

    def __init__(
        self,
        model: Model,
        executor: Executor,
        options: RunOptions,
        clock: Clock,
        progress: Progress | None = None,
    ) -> None:
        """Set `networks` and `policy` before running, and `passes` where mini-batches may take one."""
        super().__init__(options, clock, progress)
        self.model, self.executor = model, executor
        self.name, self.files, self.outputs = model.name, model.files, outputs_of(model)

    @property
    def ahead(self) -> bool:
        """Whether a thread has time to read while the executor runs."""
        return bool(self.executor.abilities.overlaps or self.executor.twins())

    def opened(self, section: Section | None) -> AbstractContextManager[Feed]:
        """Open the pipe, or the spec's data."""
        return nullcontext(self.pipe.feed()) if self.pipe else open_feed(self.model.data.path, section)

    def writing(self, target: Path) -> AbstractContextManager[Writer[Rows]]:
        """Open the file of outputs (`open_outputs`)."""
        return open_outputs(target, self.outputs, self.model.data.format == "json")

    def working(self) -> float:
        """The seconds of work, of which parallel threads count once."""
        sums, seconds = self.sums, self.clock.seconds
        phases = working = super().working()
        if self.executor.abilities.overlaps:
            # the phases overlap: their sum would count some time twice
            working = sums.elapsed - seconds["wait"] - seconds["write"]
        elif sums.abreast:  # including what is written meanwhile
            working = sums.elapsed - seconds["wait"]
        # while one thread compiles, others go on
        return max(working, phases / (1 + max(1, sums.abreast)))

    def chunks(self) -> Iterator[Chunk[Instances]]:
        """Read the model's instances."""
        data, skip_bad = self.model.data, self.options.skip_bad
        first, size = read_ahead(data.batch)
        return chunks_of(self.model, self.feed, size, first=first, limit=data.limit, skip_bad=skip_bad)

    def stretches(self, given: Iterator[Given[Instances]]) -> Iterator[Iterator[RanModel]]:
        """Run stretches of mini-batches; from a pipe, whatever arrived together."""
        parts, seen = self._parts(given), 0

        def stretch(part: Part) -> int:
            nonlocal seen
            seen += len(part.workload.instances)
            return (seen - 1) // STRETCH

        if self.feed.size is None:
            yield from (self._run([part]) for part in parts)
        else:
            yield from (self._run(some) for _, some in groupby(parts, stretch))

    def _parts(self, given: Iterator[Given[Instances]]) -> Iterator[Part]:
        """Bring instances and their mini-batches together.

        Mini-batches whose graphs the run keeps on disk are whole: no leaf of theirs is taken from others.
        """
        recorded = KEPT if self.options.keep else 0
        for instances, *taken in given:
            with self.clock("construct"):
                workload = open_workload(self.model, instances, self.networks)
            leave_out = partial(self._leave_out, workload.instances) if self.options.skip_bad else None
            windows = list(workload.windows())
            yield Part(workload, windows, leave_out, taken, apart=recorded)
            recorded = max(0, recorded - len(windows))

    def _leave_out(self, instances: Instances, error: InstanceError) -> None:
        """Record an instance that the model cannot be run on."""
        name = instances.names[error.instance] if instances.names else ""
        self.told.append(Bad(int(instances.lines[error.instance]), error.problems[0].message, name))

    def _run(self, parts: Iterable[Part]) -> Iterator[RanModel]:
        # verification reads the values of all nodes, after outputs were written
        alone, finite = self.params is not None, self.options.check_finite
        runner = PartRunner(
            self.policy,
            self.executor,
            self.clock,
            self.passes,
            looked_at=True,
            check_finite=finite,
            keep_all=alone or finite,
            alone=alone,
            reuse=not self.options.keep,  # counts of a run that stays on disk are the same each time
        )
        for part, abreast, found in runner.run(parts):
            yield from self._ran(part, abreast, found)

    def _ran(self, part: Part, abreast: int, found: Iterator[Done]) -> Iterator[RanModel]:
        instances, (before, share) = part.workload.instances, part.told
        split: set[int] = set()
        for done in found:
            batch = done.batch
            yield RanModel(
                last=int(instances.lines[batch.last - 1]),
                taken=before + share * batch.last,
                counted={
                    **asdict(done.counts),
                    "nodes": done.nodes,
                    "equal_nodes": batch.equal_nodes,
                    "batches": batch.batches,
                    "rounds": batch.grown.rounds if batch.grown else 0,
                    "unseen_states": batch.unseen,
                    "in_pieces": batch.piece and batch.window not in split,
                },
                abreast=abreast,
                run=self,
                workload=part.workload,
                batch=batch,
                result=done.result,
                given=done.columns,
            )
            if batch.piece:
                split.add(batch.window)

    def merged(self, rows: Rows | None, bad: Sequence[Bad], first: int) -> Rows:
        """Insert rows of instances that were left out (`with_bad`)."""
        if rows is None:
            columns = tuple(output.nothing for output in self.outputs)
            rows = Rows((), np.empty(0, np.int32), columns, ())
        return with_bad(rows, bad, first, self.outputs)

    def not_finite(self, rows: Rows) -> int:
        """Count the values that are NaN or infinite."""
        return sum(map(not_finite, rows.columns))


@dataclass(kw_only=True)
class RanModel(Ran[Rows]):
    """A mini-batch of a model's instances; `given` reads its outputs."""

    run: ModelRun
    workload: Workload
    batch: MiniBatch
    result: Callable[[], Result]
    given: Callable[[], tuple[Column, ...]]

    def read(self) -> Rows:
        """Read the outputs of its instances."""
        instances, first, last = self.workload.instances, self.batch.first, self.batch.last
        with self.run.clock("execute"):
            columns = self.given()
        del self.given  # observers do not need outputs later
        nothing = ("",) * (last - first)
        names = instances.names[first:last] if instances.names else nothing
        return Rows(names, instances.lines[first:last], columns, nothing)

    def whole(self) -> tuple[Graph, Dag, Schedule]:
        """The graph, the dag that the policy saw, and the schedule by which it was executed."""
        return self.batch.graph, self.batch.dag, self.batch.schedule

    def keep(self, folder: Path) -> NDArray[Any] | None:
        """Keep how instances have grown."""
        if self.batch.grown is None:
            return None
        with self.run.clock("write"):
            found = history_of(self.workload, self.batch, self.result())
            save_history(folder, self.number, found)
        return found.node_round

    def verify(self) -> tuple[float, int, int]:
        """Compare every node with the reference, and make all decisions of growth again."""
        batch, run, grown, growing = self.batch, self.run, self.batch.grown, self.workload.growing
        check_plans(batch)
        graph = grown.constructed if grown else self.workload.unfused(batch.first, batch.last)
        assert run.params
        distinct = None if grown else batch.graph.distinct
        of = graph, self.result(), run.executor, run.params, run.networks.fusion, distinct
        worst, expected = compare_with_reference(*of)
        if grown is None or growing is None:
            return worst, 0, 0
        name, tolerance = run.executor.name, allowed(run.executor.precision, TOLERANCE)
        found = recheck(growing.growth_model, grown.instances, expected, tolerance, name, grown.picks)
        return worst, found.decisions, found.close
