"""A mini-batch of programs that has run: its whole graph, and the schedule by which it was executed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from abw.core.base.progress import Clock
from abw.core.exec.params import Params
from abw.core.graph.graph import Graph
from abw.core.ir.network import Network
from abw.core.plan.counts import Counts
from abw.core.plan.plan import Plan
from abw.core.policy.schedule import Schedule
from abw.core.program.engines.engine import Engine
from abw.core.program.net import Net
from abw.core.program.recording.recorder import Ints, joined
from abw.core.program.running.fibers import Done, Failed, Program
from abw.core.program.running.verify import Verified, verify
from abw.core.program.session import Ended, How, ProgramGranularity


@dataclass(frozen=True, slots=True)
class Ran:
    """How the programs ended, after so many `rounds`, and what executing them took.

    `plans` are those of the pieces that had one, in order. The net has what is computed until its next run.
    """

    ends: tuple[Done | Failed, ...]
    rounds: int
    nodes: int
    counts: Counts
    plans: tuple[Plan, ...]
    engine: Engine

    @property
    def graph(self) -> Graph:
        """All that was recorded; node v's `vertex` is its number as it was recorded."""
        return self.engine.graph(joined(self.engine.segments))[0]

    def schedule(self, graph: Graph) -> Schedule:
        """The batches in the order in which they were executed, of the whole graph."""
        number = np.empty(len(graph), np.int32)
        number[graph.vertex] = np.arange(len(graph))
        pieces = self.engine.pieces
        made = [schedule for _, schedule in pieces]
        nodes = [number[piece.vertex[schedule.nodes]] for piece, schedule in pieces]
        sizes = _together([np.diff(schedule.ptr) for schedule in made])
        ptr = np.append(0, np.cumsum(sizes)).astype(np.int32)
        return Schedule(_together([schedule.type for schedule in made]), ptr, _together(nodes))


def how(net: Net) -> How:
    """How the net runs programs."""
    return net._how


def network_of(net: Net) -> tuple[Network, Params]:
    """The cells with their parameters. Errors: SpecError for weights that do not fit."""
    ready = net._ready()
    return ready.network, ready.params


def prepare(net: Net, granularity: ProgramGranularity) -> Clock:
    """Compile and load all that running takes, by calls of a cell on zeros; the clock of all runs to come.

    Errors: SpecError, AbwError.
    """
    cell = net.library.types[0].cell
    assert cell is not None
    shapes = [port.shape for port in cell.inputs]
    call = getattr(net, net.library.types[0].name)

    def calls(_: object) -> Generator[object, int]:
        # what is computed first and what goes on from that, with a question to each
        for _ in range(1 if granularity == "graph" else 2):
            found = call(*map(net._zeros.get, shapes))
            yield (found[0] if isinstance(found, tuple) else found).argmax()

    net._batch(calls, [0], [0], None, granularity)
    engine = net._ready().engine
    engine.clock = Clock(*engine.clock.seconds)
    return engine.clock


def run_minibatch(
    net: Net,
    function: Program,
    items: Sequence[object],
    numbers: Sequence[int],
    granularity: ProgramGranularity,
) -> Ran:
    """Run some instances, which have these numbers, as one mini-batch. Errors: AbwError."""
    engine = net._ready(granularity).engine
    ends = net._batch(function, items, numbers, None, granularity)
    assert net._last is not None
    return Ran(tuple(ends), net._last.rounds, engine.nodes, engine.counts, tuple(engine.plans), engine)


def recorded(net: Net) -> int:
    """How many nodes are recorded and not yet computed."""
    recorder = net._recorder
    return (recorder.next - recorder.begun) // recorder.step


def run_as_they_end(
    net: Net,
    function: Program,
    items: Sequence[object],
    numbers: Sequence[int],
    granularity: ProgramGranularity,
    room: int,
    over: Callable[[], str],
) -> Iterator[list[Ended]]:
    """Run some instances as one mini-batch, or more where it would have over `room` nodes; how each ends is
    given as soon as that is known. See `Session._as_they_end`. Errors: AbwError.
    """
    yield from net._as_they_end(function, items, numbers, granularity, room, over)


def verify_minibatch(
    net: Net,
    function: Program,
    items: Sequence[object],
    numbers: Sequence[int],
    granularity: ProgramGranularity,
    tolerance: float,
) -> Verified:
    """See `Net.verify`, of one mini-batch whose instances have these numbers."""
    together = partial(net._batch, granularity=granularity)
    return verify(together, net._eager, function, items, numbers, max(1, len(items)), tolerance)


def _together(parts: Sequence[NDArray[np.int32]]) -> Ints:
    return np.concatenate([np.zeros(0, np.int32), *parts])
