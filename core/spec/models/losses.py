"""Losses and metrics of the section `train`: outputs, or decisions, with what they should be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from abw.core.ir.cell import Shape
from abw.core.ir.growth import Decision, Growth
from abw.core.ir.schema import Kinds
from abw.core.ir.training import (
    LOSSES,
    METRICS,
    OF_LOGARITHMS,
    QUANTILES,
    Among,
    Loss,
    LossKind,
    Metric,
    MetricName,
    Target,
)
from abw.core.spec.keys.model import LOSS, METRIC
from abw.core.spec.models.resolve import Resolver
from abw.core.spec.models.sources import Lookup, parse_source
from abw.core.spec.text import fields
from abw.core.spec.text.document import Mapping as Keys
from abw.core.spec.text.document import Node, Scalar, Sequence
from abw.core.spec.text.report import note, report, suggest
from abw.core.spec.text.sizes import ExpressionError, noting

# The metrics of each kind of loss, the usual one first.
_OF_KINDS: Mapping[str, tuple[MetricName, ...]] = {
    "cross-entropy": ("accuracy", "span-f1", "perplexity", "loss"),
    "binary": ("accuracy", "loss"),
    "squared": ("squared-error", "loss"),
    **dict.fromkeys(OF_LOGARITHMS, (*QUANTILES, "loss")),
}


@dataclass(frozen=True, slots=True)
class Outputs:
    """A model's outputs as training sees them: by name the number, the shape and the vertices' kinds.

    Of one that grows with its decisions behind the others, which are there as their scores.
    """

    numbers: Mapping[str, int]
    shapes: Mapping[str, Shape | None]
    kinds: Mapping[str, Kinds]
    growth: Growth | None = None

    def decision(self, name: str) -> Decision | None:
        """The decision that an output is."""
        outputs = self.growth.outputs if self.growth else ()
        return next((output.decision for output in outputs if output.name == name), None)


@dataclass(frozen=True, slots=True)
class Losses:
    """What reads losses and metrics."""

    resolver: Resolver
    outputs: Outputs

    def losses(self, node: Node | None, section: Keys) -> list[Loss]:
        """One or a list of them; `section` is where one is missed."""
        if node is None:
            note("train has no 'loss'", section.where, "loss: {of: OUTPUT, target: FIELD}")
            return []
        found = [self._loss(item) for item in fields.items(node)]
        return [loss for loss in found if loss]

    def _loss(self, node: Node) -> Loss | None:
        before = len(report())
        keys = fields.mapping(node, "a loss")
        if keys is None:
            return None
        entries = LOSS.entries(keys, "a loss")
        of = entries.text("of")
        decision = self.outputs.decision(of.text) if of else None
        if of and decision and decision.how == "chance":
            if decision.limit:
                note(f"'{of.text}' is decided by chance: there is nothing to learn", of.where)
            return None
        if of and of.text not in self.outputs.numbers:
            note(f"no output is called '{of.text}'", of.where, suggest(of.text, self.outputs.numbers))
            of = None
        elif of and not self.outputs.kinds[of.text]:
            return None  # the output was reported already
        usual: LossKind = "binary" if decision and decision.how == "over" else "cross-entropy"
        kind = fields.choice(entries.get("kind"), "kind", LOSSES) or usual
        if decision and kind != usual:
            how = "whether a number is above another" if usual == "binary" else "one of several scores"
            note(f"'{of and of.text}' decides {how}: its loss is of kind {usual}", keys.where)
        weight = fields.number(entries.get("weight"), "weight")
        target = self._target(entries.text("target"), self.outputs.kinds[of.text]) if of else None
        over = self._among(entries.text("over"), self.outputs.kinds[of.text]) if of else None
        shape = self.outputs.shapes[of.text] if of else None
        if of and shape is not None and len(shape) != 1:
            note(f"output '{of.text}' has the shape {list(shape)}: a loss is of vectors", of.where)
        classes = self._classes(entries.get("classes"), kind, shape)
        if weight is not None and weight <= 0:
            note("weight must be above 0", keys.where)
        if of is None or target is None or len(report()) > before:
            return None
        number = self.outputs.numbers[of.text]
        if decision and not self._told(target, keys):
            return None
        factor = 1.0 if weight is None else weight
        return Loss(number, kind, target, over, factor, classes, keys.where, decision)

    def _told(self, target: Target, keys: Keys) -> bool:
        """Whether what a decision should be is known before a vertex's decisions are made."""
        growth = self.outputs.growth
        assert growth is not None
        if target.field in growth.decided:
            message = f"'{target.field}' is decided by the model: targets come from the data"
            note(message, keys.where, "a field of the data")
            return False
        every = next((hop.link for hop in target.hops if hop.link in growth.grown), None)
        if every:
            message = f"link '{every}' leads to what grows in all of an instance, which is not there yet"
            note(message, keys.where, "a link of the vertex itself, which a clause gives it")
            return False
        return True

    def undecided(self, losses: list[Loss], section: Keys) -> None:
        """Decisions that nothing tells what they should be."""
        growth = self.outputs.growth
        learned = [loss.decision for loss in losses]
        for kind in growth.kinds if growth else ():
            for decision in kind.decisions:
                if decision.how != "chance" and decision not in learned:
                    name, path = decision.name, f"{kind.name}.{decision.name}"
                    message = f"decision '{name}' has no loss: a model that grows learns from the decisions"
                    hint = f"outputs: {{{name}: {path}}}, and a loss {{of: {name}, target: FIELD}}"
                    note(f"{message} that its data tell", section.where, hint)

    def _classes(self, node: Node | None, kind: str, shape: Shape | None) -> tuple[float, ...]:
        if node is None:
            return ()
        if kind != "cross-entropy" or not isinstance(node, Sequence):
            hint = "classes: [1, 2.5, 1], with kind cross-entropy"
            note("'classes' are the weights of classes, one a class", node.where, hint)
            return ()
        found = [fields.number(item, "a class's weight") for item in node.items]
        if shape is not None and len(found) != shape[0]:
            note(f"there are {shape[0]} classes, and {len(found)} weights", node.where)
        return tuple(weight for weight in found if weight is not None)

    def _target(self, text: Scalar | None, kinds: Kinds) -> Target | None:
        if text is None:
            return None
        with noting(text):
            return self._told_by(text.text, kinds)
        return None

    def _told_by(self, text: str, kinds: Kinds) -> Target:
        """What a target's text means. Errors: ExpressionError."""
        resolver, (source, *others), table = self.resolver, parse_source(text), None
        if others:
            raise ExpressionError("a target has no 'or'", hint="a vertex without a target has no loss")
        if isinstance(source, Lookup):
            name = source.table.text
            if name not in resolver.tables:
                hint = suggest(name, resolver.tables)
                raise ExpressionError(f"no table is called '{name}'", hint=hint)
            source, table = source.path, resolver.tables[name][0]
        for step in source.steps[:-1]:
            link = resolver.schema.links.get(step.name)
            if link and link.many and step.index is None:
                hint = f"pick one: {step.name}[0], {step.name}[-1]"
                raise step.token.error(f"link '{step.name}' leads to many vertices", hint)
        return Target(source.steps[-1].name, resolver.field(kinds, source), table)

    def _among(self, text: Scalar | None, kinds: Kinds) -> Among | None:
        """Which of the vertices of some kinds: of a kind or group, or where a link of the instance leads."""
        if text is None:
            return None
        wanted = self.resolver.schema.members(text.text)
        if wanted & kinds:
            return Among(text.text, wanted)
        instance = frozenset({"instance"})
        leading = [
            n for n in self.resolver.schema.links_of(instance) if self.resolver.schema.links[n].target & kinds
        ]
        if text.text in leading:
            return Among(text.text, link=text.text)
        names = [*sorted(kinds), *(g for g, k in self.resolver.schema.groups.items() if k & kinds), *leading]
        message = f"'{text.text}' is neither a kind of these vertices nor a link of the instance to them"
        note(message, text.where, suggest(text.text, names))
        return None

    def metrics(self, node: Node | None, losses: list[Loss]) -> list[Metric]:
        """One or a list of them; unless told the usual one of the first loss."""
        if node is None or not losses:
            return [Metric(_OF_KINDS[losses[0].kind][0], 0)] if losses else []
        found = [self._metric(item, losses) for item in fields.items(node)]
        return [metric for metric in found if metric]

    def _metric(self, node: Node, losses: list[Loss]) -> Metric | None:
        entries = METRIC.entries(node, "a metric")
        name = entries.name(node, "a metric", tuple(METRICS))
        names = {number: n for n, number in self.outputs.numbers.items()}
        of = entries.text("of")
        number = next((n for n, loss in enumerate(losses) if of and names[loss.output] == of.text), 0)
        if of and names[losses[number].output] != of.text:
            known = [names[loss.output] for loss in losses]
            note(f"no loss is of '{of.text}'", of.where, suggest(of.text, known))
            return None
        loss = losses[number]
        over = self._among(entries.text("over"), self.outputs.kinds[names[loss.output]])
        if name is None:
            return None
        fitting = _OF_KINDS[loss.kind]
        if name not in fitting:
            message = f"{name} is not a metric for losses of kind {loss.kind}"
            note(message, node.where, f"one of: {', '.join(fitting)}")
            return None
        return Metric(name, number, over or loss.over)
