"""Rounds one by one, for executors that are given graphs, and for whoever knows the decisions already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import InstanceError, Problem
from abw.core.data.instances import Ints
from abw.core.graph.graph import Graph
from abw.core.graph.growing import state as at
from abw.core.graph.growing import walk
from abw.core.graph.growing.batch import Batch, decoded
from abw.core.graph.growing.names import ValueColumn
from abw.core.graph.growing.share import Share
from abw.core.graph.part import appended
from abw.core.ir.growth import Decision

# The values of m references, all of one shape: (m, *shape).
Values = Callable[[NDArray[np.int64]], NDArray[np.floating[Any]]]
Given = tuple[NDArray[np.float32], ...]


class Round(NamedTuple):
    """The `graph` of a round's n nodes, of which node v is number `local[v]` there.

    `types` and `vertex` (n,) are those of the nodes, in the order in which they are numbered. The graph reads
    the values `outer` of earlier nodes: its own reference `n * width + i` is the i-th of these.
    """

    graph: Graph
    outer: Ints
    types: Ints
    vertex: Ints
    local: Ints


class Rounds:
    """The rounds of a mini-batch, which add vertices to its columns.

    Of each round `open`, then `graph` and `decide`, or what is chosen is written into the columns, and picks
    are told (`pick`); then `grow`. Cost of each beside what is computed: some 10 us.
    """

    def __init__(self, batch: Batch) -> None:
        """Add the vertices of the first round."""
        self.batch, self.model = batch, batch.model
        self.share = share = Share(batch.model, sign=-1)
        constants = batch.model.network.constants
        for k, (t, s, source) in enumerate(batch.model.program.bases):
            number = batch.model.constant(source, batch.model.model.types[t].inputs[s])
            share.bases[k] = -2 - constants[number].first
        share.begin(batch, 0, len(batch))
        share.words[at.NEXT] = batch.given
        self._reserve(len(batch) * len(batch.model.growth.kinds))
        share.start()
        batch.columns.count = int(share.words[at.NEXT])

    @property
    def count(self) -> int:
        """How many rounds there were so far."""
        return int(self.share.words[at.ROUND])

    def open(self) -> bool:
        """Begin the next round, if there is one."""
        words = self.share.words
        if words[at.STATUS] == at.DONE or (self.count == 0 and not self._begun()):
            return False
        walk.do(words, walk.OPEN)
        while words[at.STATUS] == at.FULL:
            self.share.make_room()
            self._reserve(int(words[at.ADDING]))
            walk.do(words, walk.OPEN)
        return True

    def _begun(self) -> bool:
        words = self.share.words
        return bool(words[at.LAST] > words[at.FIRST] or words[at.GIVEN_LAST] > words[at.GIVEN_FIRST])

    def _reserve(self, more: int) -> None:
        """Have room for so many vertices more."""
        words, columns = self.share.words, self.batch.columns
        columns.reserve(int(words[at.NEXT]) + more)
        words[at.END] = columns.block.shape[1] - 2
        self.share.columns_moved(self.batch)

    def vertices(self, decision: Decision) -> Ints:
        """The round's vertices that a decision is made at."""
        program = self.model.program
        return self.share.register(program.vertices[program.decisions.index(decision)])

    def nodes(self, taken: int, given: Given) -> Round:
        """The round's nodes, numbered from `taken` on; of equal ones one, where these are looked for.

        `given` are the mini-batch's fields of floats (see `Graph`). Errors: InstanceError where nothing
        feeds an input.
        """
        share = self.share
        entries, steps = int(share.words[at.ENTRIES]), len(self.model.phases.steps)
        types, vertex, ends = np.empty((3, entries * steps + 1), np.int32)
        operand = np.empty(entries * self.model.program.operands, np.int32)
        arrays = {at.NODE_TYPE: types, at.NODE_VERTEX: vertex, at.OPERAND_END: ends, at.OPERAND: operand}
        share.point(arrays)
        share.words[at.TAKEN] = taken
        walk.do(share.words, walk.COLLECT)
        if share.words[at.STATUS] == at.FAILED:
            self._refuse_unfed()
        count, operands = int(share.words[at.NODE_COUNT]), int(share.words[at.OPERANDS])
        types, vertex = types[:count], vertex[:count]
        ptr, operand = np.append(0, ends[:count]).astype(np.int32), operand[:operands]
        owner, network = self.batch.columns["instance"][vertex], self.model.network
        nodes = types, vertex, owner, ptr, operand
        graph, outer, local = appended(network, nodes, taken, len(self.batch), given)
        return Round(graph, outer, types, vertex, local)

    def _refuse_unfed(self) -> None:
        words = self.share.words
        t, wanted = self.model.program.needs[int(words[at.FAILED_STEP])]
        vertex = int(words[at.FAILED_VERTEX])
        message = f"nothing feeds input '{wanted.name}' of type '{self.model.model.types[t].name}' at "
        hint = "give a default, for example `... or zeros`"
        problem = Problem(message + self.batch.vertex_text(vertex), wanted.where, hint)
        raise InstanceError(problem, self.batch.number(vertex))

    def decide(self, values: Values) -> None:
        """Make the round's decisions. Errors: InstanceError where a score is not a number."""
        scores, words = [np.zeros(0)], self.share.words
        for decision in self.model.program.decisions:
            if decision.type >= 0:
                column = self.batch.columns[ValueColumn(decision.type, decision.output)]
                references = decoded(column[self.vertices(decision)]).astype(np.int64)
                scores.append(np.asarray(values(references), np.float64).ravel())
        self.share.point({at.SCORES: np.concatenate(scores)})
        walk.do(words, walk.CHOOSE_ALL)
        if words[at.STATUS] == at.FAILED:
            self._refuse_score()

    def _refuse_score(self) -> None:
        words, model = self.share.words, self.model
        number = int(model.program.steps[int(words[at.FAILED_STEP]), 1])
        decision, vertex = model.program.decisions[number], int(words[at.FAILED_VERTEX])
        node_type = model.model.types[decision.type]
        scores = f"{node_type.name}.{node_type.outputs[decision.output].name}"
        message = f"{scores} is not a number at {self.batch.vertex_text(vertex)}: so nothing can be chosen"
        hint = "--check-finite finds the first such number, and checks the weights"
        raise InstanceError(Problem(message, decision.span, hint), self.batch.number(vertex))

    def pick(self, vertices: Ints, numbers: Ints) -> None:
        """What `best` picked in this round."""
        words = self.share.words
        first = int(words[at.PICK_NEXT])
        self.share.picks[at.PICK_VERTEX][first : first + len(vertices)] = vertices
        self.share.picks[at.PICK_NUMBER][first : first + len(vertices)] = numbers
        words[at.PICK_FIRST] = first
        words[at.PICK_NEXT] = words[at.KEPT_NEXT] = first + len(vertices)

    def grow(self) -> None:
        """Do the round's clauses."""
        walk.do(self.share.words, walk.ADD_ALL)
        self.batch.columns.count = int(self.share.words[at.NEXT])
