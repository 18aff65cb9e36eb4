"""Teacher forcing: a model that grows learns on what grows by the decisions that its data tell.

Growth is then done by the targets of the losses, and no scores (Williams and Zipser, 1989). What has grown is
ordinary instances with the decisions as fields, and the model of these is trained as any other: the scores
of each decision are an output, and what was told is its target. At a vertex without a target nothing is
decided, so growth ends there.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import InstanceError, Problem
from abw.core.data.derive import field, with_derived
from abw.core.data.instances import Instances, Ints
from abw.core.data.vertices import INDEX, FieldColumn, finished, given_link, with_room
from abw.core.graph.growing.batch import Batch, GrowthData
from abw.core.graph.growing.decide import Chances, allowed, decide
from abw.core.graph.growing.rounds import Rounds
from abw.core.ir.growth import Decision, GrowingKind
from abw.core.ir.model import Model
from abw.core.ir.training import Loss, Target
from abw.core.run.workload import open_networks
from abw.core.train.targets import classes_of, require_class


def finished_model(model: Model) -> Model:
    """The model of instances that have grown, with the scores of decisions as outputs; any other as it is.

    Its parameters are the same. Its losses are of what has grown: a decision's target is its field.
    """
    if model.growth is None or model.training is None:
        return model
    scores = tuple((o.name, ((o.decision.type, o.decision.output),)) for o in model.growth.scored)
    losses = tuple(
        replace(loss, target=Target(loss.decision.name)) if loss.decision else loss
        for loss in model.training.losses
    )
    training = replace(model.training, losses=losses)
    return replace(model, outputs=(*model.outputs, *scores), growth=None, training=training)


class Teacher:
    """Grows instances by the targets of a model's losses; `model` is the one that grows.

    Instances of a model that does not grow are left as they are.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._growth_model = open_networks(model, "cell").growth_model if model.growth else None

    def __call__(self, instances: Instances) -> Instances:
        """The instances with all that grows.

        Errors: SpecError; InstanceError where a target is not allowed, or more would grow than `most`.
        Cost: some 100 us a round, and 1 us a vertex.
        """
        growth = self.model.growth
        if growth is None or self._growth_model is None:
            return instances
        instances = with_derived(instances, growth.given)
        instances = with_room(instances, growth, self._growth_model.extended(instances.schema))
        last = len(instances)
        columns = _Lesson(self.model, Batch(GrowthData(self._growth_model, instances), 0, last)).columns
        return finished(instances, 0, last, columns, growth, columns.ordered(last))


class _Lesson:
    """Instances that grow, all together: their `columns`."""

    def __init__(self, model: Model, batch: Batch) -> None:
        assert model.growth and model.training
        self._model, self._instances = model, batch.growing.instances
        self._batch, self.columns = batch, batch.columns
        self._chances = Chances(model.data.seed, batch.numbers)
        self._losses = {loss.decision: loss for loss in model.training.losses if loss.decision}
        self._classes = {d: self._open(loss) for d, loss in self._losses.items()}
        self._grow(model.growth.kinds)

    def _open(self, loss: Loss) -> Ints | None:
        """Have the columns that a target needs; the class of each of its field's numbers."""
        instances, target = self._instances, loss.target
        for hop in target.hops:
            self.columns.give(hop, given_link(instances, hop))
        name = target.field
        values = field(instances, name, self._model.data.seed)
        self.columns.give(INDEX if name == "index" else FieldColumn(name), values)
        return classes_of(self._model, loss, instances)

    def _grow(self, kinds: tuple[GrowingKind, ...]) -> None:
        """Round after round, in the order in which a run adds vertices."""
        rounds = Rounds(self._batch)
        while rounds.open():
            for kind in kinds:
                for decision in kind.decisions:
                    at = rounds.vertices(decision)
                    self.columns[FieldColumn(decision.name)][at] = chosen = self._told(decision, at)
                    if decision.how == "best":
                        rounds.pick(at, chosen)
            rounds.grow()
            self._refuse_cut(kinds)

    def _told(self, decision: Decision, at: Ints) -> Ints:
        """Find the target of a decision at each vertex, -1 where there is none."""
        columns = self.columns
        if decision.how == "chance":
            return decide(decision, columns, at, _no_scores, self._chances)
        loss = self._losses[decision]
        reached, name = columns.follow(at, loss.target.hops), loss.target.field
        found = (columns[INDEX] if name == "index" else columns[FieldColumn(name)])[reached]
        classes = self._classes[decision]
        if classes is not None:
            found = np.where(found >= 0, np.append(classes, -1)[found], -1).astype(np.int32)
        count = 2
        if decision.how != "over":
            (count,) = self._model.types[decision.type].outputs[decision.output].shape
        require_class(loss, decision.name, found.max(initial=0), count)
        may = allowed(decision, columns, at)
        if may is not None and (wrong := (found >= 0) & ~may[np.arange(len(at)), found]).any():
            first = int(np.argmax(wrong))
            chosen = decision.names[found[first]] if decision.names else str(found[first])
            message = f"the target '{chosen}' of '{decision.name}' is not allowed at "
            self._refuse(message, int(at[first]), loss, "see 'allow' of the decision")
        return found

    def _refuse_cut(self, kinds: tuple[GrowingKind, ...]) -> None:
        """Refuse instances that would grow more than there may be."""
        where = np.argwhere(self._batch.cut)
        if len(where):
            number, instance = where[0].tolist()
            name = self._instances.schema.kinds[number]
            kind = next(kind for kind in kinds if kind.name == name)
            vertex = int(self._instances.start[instance])
            message = f"by its targets more than {kind.most} of kind '{name}' grow in "
            problem = Problem(message + self._batch.instance_text(vertex), kind.span, "a larger `most`")
            raise InstanceError(problem, instance)

    def _refuse(self, message: str, vertex: int, loss: Loss, hint: str) -> None:
        problem = Problem(message + self._batch.vertex_text(vertex), loss.where, hint)
        raise InstanceError(problem, self._batch.number(vertex))


def _no_scores(t: int, output: int, vertices: Ints) -> NDArray[np.float64]:
    raise ValueError(f"output {output} of type {t} at {len(vertices)} vertices: nothing is computed here")
