"""The section `outputs` of a model: which values of which types are its results."""

from __future__ import annotations

from abw.core.base.errors import did_you_mean
from abw.core.ir.growth import DecisionOutput, Growth
from abw.core.ir.model import Answer
from abw.core.spec.keys.model import ANSWER
from abw.core.spec.models.answers import FIELDS, read_answer, read_beside
from abw.core.spec.models.drafts import named
from abw.core.spec.models.growing.section import decision_output, not_a_type
from abw.core.spec.models.resolve import Resolver
from abw.core.spec.models.sources import parse_reference
from abw.core.spec.text import fields
from abw.core.spec.text.document import Mapping as Keys
from abw.core.spec.text.document import Node, Scalar, Sequence
from abw.core.spec.text.reach import Reach
from abw.core.spec.text.report import suggest
from abw.core.spec.text.tokens import noting

# What no output can be called: in a .safetensors it is no tensor.
RESERVED = "__metadata__"


def read_outputs(
    node: Keys | None, growth: Growth | None, resolver: Resolver, reach: Reach
) -> tuple[
    tuple[tuple[str, tuple[tuple[int, int], ...]], ...], tuple[DecisionOutput, ...], dict[str, Answer]
]:
    """The results that nodes give, those that are decisions, and what some are given back as."""
    drafts, report = resolver.drafts, resolver.report
    if node is not None and not node.items:
        report.add("a model needs an output", node.where, "outputs: {name: type.output}")
    users = []
    decisions = []
    answers = {}
    for key, value in node.items if node else ():
        fields.name(key, "an output", report)
        if key.text == RESERVED:
            report.add(f"'{RESERVED}' is a word of safetensors", key.where, "use another name")
        written = value if isinstance(value, Keys) else None
        plain = written is None or {key.text for key, _ in written.items} <= {"of", FIELDS}
        of = (written.get("of") or value) if written else value
        if growth and plain and (decision := decision_output(key.text, of, growth)):
            decisions.append(decision)
            if written:
                beside = read_beside(key, written, decision.kinds, resolver)
                answers[key.text] = Answer(fields=beside)
            continue
        if written:
            written = ANSWER.check(written, f"output '{key.text}'", report)
            value = written.get("of") or Sequence((), written.where)
        items = fields.items(value)
        if not items and not (written and not written.get("of")):
            report.add(f"output '{key.text}' names nothing", value.where)
        pairs = [_output(item, key, growth, resolver) for item in items]
        known = tuple(pair for pair in pairs if pair is not None)
        shapes = {tuple(drafts[t].outputs.values())[o] for t, o in known} - {None}
        if len(shapes) > 1:
            shown = ", ".join(str(list(shape or ())) for shape in sorted(shapes, key=str))
            report.add(f"output '{key.text}' has several shapes: {shown}", key.where)
        users.append((key.text, known))
        if written:
            kinds = frozenset[str]().union(*(drafts[t].kinds for t, _ in known))
            shape = next(iter(shapes), None)
            answers[key.text] = read_answer(key, written, shape, kinds, resolver, reach)
    return tuple(users), tuple(decisions), answers


def _output(node: Node, key: Scalar, growth: Growth | None, resolver: Resolver) -> tuple[int, int] | None:
    drafts, report = resolver.drafts, resolver.report
    text = fields.text(node, f"output '{key.text}'", report)
    if text is None:
        return None
    with noting(text, report):
        first, second = parse_reference(text.text, "an output is TYPE.OUTPUT")
        draft = named(drafts, first.text)
        if draft is None:
            wrong = not_a_type(key.text, first.text, second.text, growth) if growth else None
            unknown = f"unknown type '{first.text}'", suggest(first.text, [d.name for d in drafts])
            raise first.error(*(wrong or unknown))
        if second.text in draft.outputs:
            return draft.number, tuple(draft.outputs).index(second.text)
        if draft.whole:
            hint = did_you_mean(second.text, tuple(draft.outputs))
            raise second.error(f"type '{draft.name}' has no output '{second.text}'", hint)
    return None
