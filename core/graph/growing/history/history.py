"""How a mini-batch has grown, round by round: what came when, what was decided there, and how clearly."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.data.instances import Instances, Ints
from abw.core.data.vertices import INDEX, Columns, FieldColumn, Order
from abw.core.graph.bounds import heights
from abw.core.graph.dag import Dag, build_dag
from abw.core.graph.graph import Graph, Nodes
from abw.core.graph.growing.decide import Read, Scores
from abw.core.graph.growing.finished import nodes_on
from abw.core.graph.growing.history.margins import Margins, beam_margins, margins, together
from abw.core.graph.growing.history.picks import Picks
from abw.core.graph.growing.model import GrowthModel
from abw.core.graph.growing.names import ROUND
from abw.core.ir.growth import Decision
from abw.core.ir.model import Model


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """The `rounds` of a mini-batch of V vertices and n nodes.

    `kinds`: the names of vertices' kinds, and `most` (K,) of each in an instance, -1 for any number. Of each
    vertex (V,): its `kind`, its number `index` among that in its `instance`, the `round` in which it came, 0
    for what was given. `node_round` (n,): when each node was computed; 0 before growth, rounds + 1 after.

    Choices, (D,) each, by round, instance, vertex: which of `decisions` (names, and `hows`) at which
    `vertex`; `chosen`, `score`, `second`, `second_score` and `fate` as in `Margins`; `word` and `second_word`
    are what the numbers mean, places in `words`, -1 for those that have no word. A choice was made in the
    round of its vertex, at a given one in the first.

    `cut` (C, 3): kind, instance and round where an instance first had `most` of a kind and wanted more.
    """

    rounds: int
    kinds: tuple[str, ...]
    most: Ints
    kind: Ints
    index: Ints
    instance: Ints
    round: Ints
    node_round: Ints
    decisions: tuple[str, ...]
    hows: tuple[str, ...]
    decision: Ints
    vertex: Ints
    chosen: Ints
    score: NDArray[np.float32]
    second: Ints
    second_score: NDArray[np.float32]
    fate: Ints
    words: tuple[str, ...]
    word: Ints
    second_word: Ints
    cut: Ints

    @property
    def made_in(self) -> Ints:
        """The round of each choice (D,)."""
        return np.maximum(self.round[self.vertex], 1)

    @property
    def by_scores(self) -> bool:
        """Whether any decision is made by what weights compute."""
        return any(how != "chance" for how in self.hows)

    @property
    def ends(self) -> Ints:
        """By instance its last round; 0 where nothing grew or was decided."""
        found = np.zeros(int(self.instance.max(initial=-1)) + 1, np.int32)
        np.maximum.at(found, self.instance, self.round)
        np.maximum.at(found, self.instance[self.vertex], self.made_in)
        return found

    @property
    def growing(self) -> Ints:
        """By round (rounds,), how many instances had not ended before it."""
        ended = np.bincount(self.ends, minlength=self.rounds + 1)
        counts: Ints = (len(self.ends) - np.cumsum(ended)[:-1]).astype(np.int32)
        return counts


class Ended(NamedTuple):
    """A mini-batch that has grown: see `abw.core.run.growing.grow.Grown` for each."""

    columns: Columns
    order: Order
    instances: Instances
    rounds: int
    cut_in: Ints
    picks: Picks | None


def of_distinct(found: History, graph: Graph) -> History:
    """The history with the rounds of a graph's nodes: each is computed for the first that it stands for."""
    if graph.distinct is None:
        return found
    rounds = np.full(len(graph), found.rounds + 1, np.int32)
    np.minimum.at(rounds, graph.distinct.nodes(graph.type_ptr), found.node_round)
    return replace(found, node_round=rounds)


def bound_by_rounds(dag: Dag, node_round: Ints) -> Ints:
    """The lower bound by type (T,) where rounds follow each other: the sum of those of the rounds.

    What a round adds is not known before it: no run has fewer batches than the sum of these, though a
    schedule of the graph as it is in the end may. O(n + m).
    """
    source = np.repeat(np.arange(len(dag), dtype=np.int32), np.diff(dag.succ_ptr))
    same = node_round[source] == node_round[dag.succ]
    height = heights(build_dag(dag.types, dag.type, source[same], dag.succ[same]))
    top = np.zeros((int(node_round.max(initial=0)) + 1, len(dag.types)), np.int32)
    np.maximum.at(top, (node_round, dag.type), height)
    found: Ints = top.sum(axis=0, dtype=np.int32)
    return found


def history(
    growth_model: GrowthModel,
    grown: Ended,
    nodes: Nodes,
    read: Any,  # noqa: ANN401 - a result's values
) -> History:
    """Describe how instances grew. `nodes` are theirs, `read` gives the values behind references
    (`Result.values`). Cost: reading all scores.
    """
    growth, model = growth_model.growth, growth_model.model
    finished, columns, order = grown.instances, grown.columns, grown.order

    def scores(t: int, output: int, vertices: Ints) -> Scores:
        node = nodes_on(nodes, t, order.place[vertices])
        found: Scores = read(node * nodes.network.width + output)
        return found

    names: list[Decision] = []
    parts: list[tuple[Margins, Ints]] = []
    for kind in growth.kinds:
        numbers = [n for n, name in enumerate(finished.schema.kinds) if name in kind.kinds]
        at = order.vertex[np.isin(finished.kind, numbers)]
        for decision in kind.decisions:
            made = _margins(decision, grown, at, scores)
            parts.append((made, np.full(len(made.vertex), len(names), np.int32)))
            names.append(decision)
    made = together([part for part, _ in parts])
    which = np.concatenate([np.zeros(0, np.int32), *(number for _, number in parts)])
    instance = np.repeat(np.arange(len(finished), dtype=np.int32), np.diff(finished.start))
    # a vertex that a round adds is computed in the next one; given ones are of round 0
    since = columns[ROUND][order.vertex] + np.int32(1)
    by = np.lexsort((which, made.vertex, instance[made.vertex], np.maximum(since[made.vertex], 1)))
    words, (word, second_word) = _words(model, names, which[by], made.chosen[by], made.second[by])
    most = {kind.name: kind.most for kind in growth.kinds if not kind.given}
    kinds, instances = np.nonzero(grown.cut_in)
    return History(
        grown.rounds,
        finished.schema.kinds,
        np.array([most.get(name, -1) for name in finished.schema.kinds], np.int32),
        finished.kind.astype(np.int32),
        columns[INDEX][order.vertex],
        instance,
        since,
        _node_rounds(growth_model, nodes, since, grown.rounds),
        tuple(decision.name for decision in names),
        tuple(decision.how for decision in names),
        which[by],
        made.vertex[by],
        made.chosen[by],
        made.score[by].astype(np.float32),
        made.second[by],
        made.second_score[by].astype(np.float32),
        made.fate[by],
        words,
        word,
        second_word,
        np.column_stack([kinds, instances, grown.cut_in[kinds, instances]]).astype(np.int32),
    )


def _margins(decision: Decision, grown: Ended, at: Ints, read: Read) -> Margins:
    """A decision's choices at vertices among the columns, as finished instances number them."""
    columns, order, picks = grown.columns, grown.order, grown.picks
    if decision.how == "best":
        assert picks is not None
        by = np.full(len(order.place), -1, np.int32)
        by[order.vertex] = picks.by
        picks = replace(picks, vertex=order.vertex[picks.vertex], by=by)
        found = beam_margins(decision, columns, at, read, picks)
    else:
        found = margins(decision, columns, at, read, columns[FieldColumn(decision.name)][at])
    return replace(found, vertex=order.place[found.vertex])


def _node_rounds(growth_model: GrowthModel, nodes: Nodes, since: Ints, rounds: int) -> Ints:
    phases = growth_model.phases
    type = np.repeat(np.arange(len(nodes.network.types)), np.diff(nodes.type_ptr))
    found = np.where(np.isin(type, phases.during), since[nodes.vertex], 0)
    found[np.isin(type, phases.after)] = rounds + 1
    return found.astype(np.int32)


def names_of(model: Model, decision: Decision) -> tuple[str | None, ...]:
    """What the numbers that a decision chooses are called; None where they have no name.

    By what is allowed, the table that its clauses give them to, or an output that is a label of the scores.
    """
    if decision.names is not None:
        return decision.names
    for name, producers in model.outputs:
        answer = model.answers.get(name)
        if answer and answer.names and (decision.type, decision.output) in producers:
            return answer.names
    return ()


def _words(
    model: Model, names: list[Decision], which: Ints, *numbers: Ints
) -> tuple[tuple[str, ...], tuple[Ints, ...]]:
    """The words that numbers of decisions have, each once, and the place of each number's, -1 for none."""
    words: dict[str, int] = {}
    found = tuple(np.full(len(which), -1, np.int32) for _ in numbers)
    for d, decision in enumerate(names):
        known = names_of(model, decision)
        for number, place in zip(numbers, found, strict=True):
            here = np.flatnonzero((which == d) & (number >= 0) & (number < len(known)))
            used, back = np.unique(number[here], return_inverse=True)
            said = [known[n] for n in used.tolist()]
            table = [-1 if word is None else words.setdefault(word, len(words)) for word in said]
            place[here] = np.array(table, np.int32)[back]
    return tuple(words), found
