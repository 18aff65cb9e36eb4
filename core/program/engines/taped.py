"""Executes pieces by the executor's own tape, without plans."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from abw.core.exec.interface import Array, Tape
from abw.core.graph.graph import Graph
from abw.core.plan.counts import Counts
from abw.core.policy.rules.critical import Critical
from abw.core.policy.schedule import Schedule
from abw.core.program.engines.engine import BatchEngine
from abw.core.program.recording.recorder import Ints, Longs, Piece, Recorder, Segment, segment
from abw.core.program.recording.values import BITS


class TapeEngine(BatchEngine):
    """A BatchEngine that makes plans only where it has to: where the executor has no tape, or another policy
    than the critical rule is wanted; and of pieces that are too large for one thread.
    """

    def begin(self, base: int) -> None:
        """As in `Engine`."""
        super().begin(base)
        self._base = base
        self._recorded: list[tuple[Piece, int] | Segment] = []
        self.tape = self._executor.tape(BITS) if isinstance(self._policy, Critical) else None
        if self.tape is not None:
            self.tape.begin(base * self.network.width)
            self.tape.place(self._type, self._row)

    def taped(self, piece: Piece) -> bool:
        """As in `Engine`. Cost: see `Tape.advance`."""
        if self.tape is None:
            return False
        self._bring(self.tape)
        self._reserve(piece.nodes)
        with self.clock("execute"):
            end = self.tape.advance(piece.words, piece.nodes, self.nodes)
        if end != "done":
            return False
        self._note(piece)
        return True

    def round(self, recorder: Recorder, asked: int) -> list[int] | None:
        """As in `Engine`. Cost: see `Tape.round`."""
        if self.tape is None:
            return None
        self._bring(self.tape)
        start = perf_counter()  # as `clock` counts, which takes a tenth of a round
        found = self.tape.round(recorder.head.at, self.nodes, asked)
        while found is None and self.tape.make_room(recorder.unread):
            self._reserve(recorder.unread)
            found = self.tape.round(recorder.head.at, self.nodes, asked)
        self.clock.seconds["execute"] += perf_counter() - start
        if recorder.executed:
            self._note(recorder.take())
        return found

    def _bring(self, tape: Tape) -> None:
        if self._given:
            for constant, since, values in self._given.fresh(self.network):
                tape.bring(constant, since, values)

    def _note(self, piece: Piece) -> None:
        """What the tape has computed."""
        self._recorded.append((piece, self.nodes))
        self.nodes += piece.nodes
        self._next = {}  # what comes is not kept: where it finds earlier values is the tape's matter

    def advance(self, segment: Segment) -> None:
        """As in `Engine`."""
        self._recorded.append(segment)
        if self.tape is None:
            super().advance(segment)
            return
        self._rows = self.tape.leave()
        super().advance(segment)
        self.tape.take(self.plans[-1].rows)

    def _taken(self) -> Ints | None:
        return super()._taken() if self.tape is None else self._rows

    def _reserve(self, more: int) -> None:
        before = self._type
        super()._reserve(more)
        if self.tape is not None and self._type is not before:
            self.tape.place(self._type, self._row)

    @property
    def segments(self) -> list[Segment]:
        """As of `BatchEngine`."""
        slots = np.array([len(t.slots) for t in self.network.types], np.int32)
        return [
            held
            if isinstance(held, Segment)
            else segment(held[0], slots, self.network.width, self._base, held[1])
            for held in self._recorded
        ]

    @property
    def pieces(self) -> list[tuple[Graph, Schedule]]:
        """As of `BatchEngine`; the tape's are made now, by the rule that it goes by itself: the same batches,
        whose lanes it may have had in another order.
        """
        planned, found = iter(self.plans), []
        for held, own in zip(self._recorded, self.segments, strict=True):
            if isinstance(held, Segment):
                made = next(planned)
                found.append((made.graph, made.schedule))
            else:
                graph = self.graph(own)[0]
                found.append((graph, self._policy.schedule(graph.dag)))
        return found

    @property
    def batches(self) -> int:
        """As of `BatchEngine`."""
        return super().batches + (0 if self.tape is None else self.tape.batches)

    @property
    def counts(self) -> Counts:
        """As of `BatchEngine`."""
        planned, own = super().counts, 0 if self.tape is None else self.tape.batches
        return Counts(
            planned.batches + own, planned.launches + own, planned.memory_kernels, planned.bytes_moved
        )

    def computed(self, references: Longs) -> Array:
        """As of `BatchEngine`."""
        return super().computed(references) if self.tape is None else self.tape.values(references)
