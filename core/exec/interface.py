"""What every executor is, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.exec.params import Params
from abw.core.exec.precision import Precision
from abw.core.graph.equal.leaves import Leaves
from abw.core.graph.graph import Graph, Nodes
from abw.core.ir.network import Network
from abw.core.plan.counts import Counts
from abw.core.plan.plan import Plan
from abw.core.policy.schedule import Schedule

if TYPE_CHECKING:  # what grows or is trained is imported by what grows or trains
    from abw.core.exec.gradient import Gradient
    from abw.core.grad.graph import TrainingGraph
    from abw.core.graph.growing.model import GrowthModel
    from abw.core.graph.growing.share import Share


class TooLargeError(AbwError):
    """A plan needs more memory than the device has left: fewer instances at once may fit."""

    def __init__(self, needed: int, free: int, device: str) -> None:
        super().__init__(
            f"a plan needs {needed / 1e9:.2f} GB at once; {free / 1e9:.2f} GB are free on {device}",
            hint="smaller dims, or instances with fewer nodes",
        )


Array = NDArray[np.floating[Any]]
Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Result:
    """What running a plan gave: the nodes' outputs, and what it took, counted while running.

    An executor that knows no batches counts each node as one. `read` gets the values behind references, all
    of one shape; use `values` and `value`. They raise RuntimeError for what the plan did not keep, and after
    the executor's next run, which takes the memory again unless its plan goes on from this one.
    """

    nodes: Nodes
    counts: Counts
    read: Callable[[NDArray[np.integer[Any]]], Array]

    def values(self, references: NDArray[np.integer[Any]]) -> Array:
        """The values of m references (see `Network.width`), all of one shape: (m, *shape)."""
        return self.read(references)

    def value(self, type: int, output: int) -> Array:
        """Output number `output` of all nodes of type `type`, in the order of the nodes: (n_type, *shape)."""
        first, last = self.nodes.type_ptr[type : type + 2].tolist()
        network = self.nodes.network
        found = self.read(np.arange(first, last) * network.width + output)
        return found.reshape(last - first, *network.types[type].outputs[output].shape)


@dataclass(frozen=True, slots=True)
class Computed:
    """What an executor's rounds have computed, as they noted it in the columns of the vertices.

    `rows` (A,): so many rows of each arena are taken now. `rounds` and `batches`: how many there were, a
    batch that threads share as one; `shares`: what each thread knows. `read` gives values of nodes numbered
    type after type, by `type_ptr` (T + 1,), the rows of their outputs (n * W,), and references as a `Result`
    has them.
    """

    rows: Ints
    rounds: int
    batches: int
    shares: Sequence[Share]
    read: Callable[[Ints, Ints, NDArray[np.integer[Any]]], Array]


# Of the best elements of several values: which of the values, which of its elements, its score.
Picked = tuple[int, int, float]


# What the first words of a recorder's memory say, in this order.
#
# Of nodes: where their `words` lie, how many these are (`at`), and how many of them were executed (`begin`);
# the `next` node's handle, and that of the first which was not executed (`begun`). Of questions: where `asks`
# and `masks` lie; how many were `asked`, how many bytes of the masks are taken (`masked`), the `least` and
# the `most` of the handles; where `answers` lie. Of what was executed: how many `rounds` there were, and
# where their `cuts` lie: of each the first of its words, their end, and how many nodes it had. Where the
# words of the `tape` lie that executes, and the function `round` that does it. Of questions for the best of
# several values: where their `handles` lie, and what scores begin with (`plus`); the `scores` of what was
# picked, behind them as 32-bit numbers which of the values these are, then which elements; each has room for
# `rank_room`; how many values (`ranked`) and elements (`picked`) it is all in all.
#
# A question has these numbers in `asks`: which it is; the value's handle; and its argument.
# - 0: for the number of the largest element, the first of equals; of those whose byte in `masks` is not 0,
#   from the third number on, as many as the fourth says; of all if the third is -1.
# - 1: whether the value's one number is larger than a limit, the third number's bits. The answer is `TRUE` or
#   `FALSE`.
# - 2: for the best of several values: the largest of their handles, the first one's number in `handles`, how
#   many they are, how many elements are wanted, where these lie in `scores`. The answer is less than
#   `FALSE` by as many as there are.
HEAD = (
    "words", "at", "begin", "next", "begun", "asks", "masks", "asked", "masked", "least", "most", "answers",
    "rounds", "cuts", "tape", "round", "handles", "plus", "scores", "rank_room", "ranked", "picked",
)  # fmt: skip
ASK_WORDS = 6
TRUE, FALSE = -1, -2


# As many elements of several values a tape finds at most.
MOST_BEST = 64


@dataclass(frozen=True, slots=True)
class Abilities:
    """What the rest of abw asks of an executor before it uses it.

    `overlaps`: a run leaves the processor free, so that the next mini-batch is planned meanwhile; its memory
    is best not given to several values. `knows_batches`: the schedule it is given decides what it costs.
    `halves`: it can stop amid a plan and go on. `tapes`: it may have a tape of its own (`Executor.tape`).
    """

    overlaps: bool = False
    knows_batches: bool = True
    halves: bool = False
    tapes: bool = False


# Of an executor that works on the processor, batch after batch; and of one on a device of its own.
USUAL, OVERLAPPING = Abilities(), Abilities(overlaps=True)


@dataclass(frozen=True, slots=True)
class Executed:
    """What threads did in one run of a plan, an entry a batch, or a thread's part of one: k of them.

    `thread`, `batch`, `type` and `rows` are whole numbers; `start` and `end` seconds of `time.perf_counter`;
    `share_of_peak` what its matrix products make of a core's peak, NaN without products. All (k,).
    """

    thread: NDArray[np.int64]
    batch: NDArray[np.int64]
    type: NDArray[np.int32]
    rows: NDArray[np.int64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    share_of_peak: NDArray[np.float64]


class Profile(Protocol):
    """Time by type and reason."""

    def document(self) -> dict[str, Any]:
        """The profile for a run's report."""


class Profiler(Protocol):
    """Says where the time of an executor's runs goes, and notes each batch."""

    def measure(self) -> None:
        """From now on measure where the time of runs goes; each is to be followed by `sample`."""

    def sample(self, plan: Plan) -> None:
        """Measure the plan that was run last by running it again; its result stays as it is."""

    def profile(self) -> Profile:
        """Where the time of all runs since `measure` went. Raises ValueError where nothing was measured."""

    def record(self, most: int) -> None:
        """From now on note what is executed, in `most` runs at most."""

    def recorded(self) -> list[Executed]:
        """The runs so far. Raises ValueError where nothing was noted."""


class Executor(Protocol):
    """Runs plans of one network with one set of parameters.

    An executor inherits from this: what is not said otherwise below is what it does by itself.
    """

    name: ClassVar[str]
    """What the user calls it."""

    abilities: ClassVar[Abilities] = USUAL

    threads: int = 1
    """How many share a run."""

    precision: Precision = "float32"
    """What the weights of products are at least as good as."""

    @property
    def packed_bytes(self) -> int | None:
        """What the weights take that are packed for the kernels; None where they are used as they are."""
        return None

    profiler: Profiler | None = None
    """What measures where the time of its runs goes, and notes each batch; None where nothing can."""

    @property
    def leaves(self) -> Leaves | None:
        """The leaves that it keeps from run to run; None where it keeps none."""
        return None

    def kernels(self) -> Mapping[str, str]:
        """What was compiled for the network prepared: each type's text, or one for all under the name ''.

        Empty where nothing is compiled.
        """
        return {}

    def prepare(self, network: Network, params: Params, threads: int | None = None) -> None:
        """Take a network's parameters, and do what has to be done once for them.

        `threads`: how many a run may use; None leaves it to the library. Errors: AbwError for several where
        a run cannot be shared.
        """

    def update(self, params: Params, rows: Mapping[int, Ints] | None = None) -> None:
        """Take other values of the parameters and tables, from the next run on; nothing is compiled again.

        What was given last may have been changed in place: of table t the rows `rows[t]`, where these are
        given. That is faster if it is in one vector (`Params.flattened`). Results of earlier runs cannot be
        read any more. Raises ValueError for other shapes.
        """

    def twins(self) -> tuple[Executor, ...]:
        """Executors with these weights that run side by side, each a plan on one thread; () where none can.

        They hold until the weights change. Cost: arenas and tables for each, once it runs.
        """
        return ()

    def arrange(self, graph: Graph, schedule: Schedule) -> Schedule:
        """Arrange the batches to be planned as this executor runs them best: in parts, or as they are."""
        return schedule

    def divide(self, graph: Graph) -> Ints | None:
        """The part of each instance (instances,), where threads share the run of this graph by instances.

        None where they do not. Equal nodes are then left out within parts alone.
        """
        return None

    def run(self, plan: Plan) -> Result:
        """Execute a plan of the network prepared.

        Raises StaleLeavesError for one that reads leaves which were forgotten meanwhile.
        """

    def rounds(self, model: GrowthModel) -> Any:  # noqa: ANN401
        """`CompiledRounds`, which drive the rounds of a model that grows; or in words why Python is to."""
        return f"executor '{self.name}' has none of its own"

    def tape(self, bits: int) -> Any:  # noqa: ANN401
        """A `CompiledTape`, which executes what programs record without plans; None where there is none."""
        return None

    def begin(self, plan: Plan, until: int) -> Result:
        """Execute the first `until` launches of a plan alone; its values can be read up to there.

        Errors: AbwError where it cannot stop midway (`Abilities.halves`).
        """
        raise refuse_halves(self.name)

    def share(self, work: Callable[[int, int], object], amount: int, kind: str) -> None:
        """Call `work(part, parts)` for each of so many parts, as there are threads for it.

        `amount`: how much work it is all in all, beside others of its `kind`: some are not worth a thread.
        """
        work(0, 1)

    def gradient(
        self,
        made: TrainingGraph,
        plan: Plan,
        result: Result,
        params: Params,
        meanwhile: Callable[[], object] | None = None,
    ) -> Gradient:
        """The gradient of parameters and tables, from the `result` of a training graph's plan.

        `params` are those in force. Sums are in the order of the nodes: the same bits whatever the batches
        were. It may be taken again by the next call. Where several threads share a run, this one calls
        `meanwhile` before it helps the others.
        """
        from abw.core.exec.gradient import gradients_of

        return gradients_of(made, result.values, params)

    def resume(self, plan: Plan, since: int) -> Result:
        """Execute the launches from number `since` on, where `begin` stopped.

        The fields of vertices (`Graph.given`) are read again: what was written there meanwhile counts.
        Raises RuntimeError for a plan that was not begun last. Errors: as `begin`.
        """
        raise refuse_halves(self.name)


def refuse_halves(executor: str) -> AbwError:
    """The error of executors that cannot stop amid a plan."""
    return AbwError(
        f"executor '{executor}' runs a plan as a whole: training stops in its middle, for the loss",
        hint="--executor cpu or --executor reference",
        exit_code=2,
    )


def refuse_threads(executor: str, threads: int | None) -> None:
    """For executors that cannot share a run. Errors: AbwError where several threads are asked for."""
    if threads is not None and threads > 1:
        raise AbwError(
            f"executor '{executor}' shares no run among threads",
            hint="several threads need --executor cpu or --executor blas",
            exit_code=2,
        )
