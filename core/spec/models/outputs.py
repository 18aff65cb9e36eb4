"""The section `outputs` of a model: which values of which types are its results, in which form."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import get_args

from abw.core.base.errors import did_you_mean
from abw.core.ir.cell import Shape
from abw.core.ir.growth import DecisionOutput, Growth
from abw.core.ir.model import FORMS, VERTEX, Answer, Form
from abw.core.ir.schema import Kinds, Schema
from abw.core.spec.keys.model import ANSWER
from abw.core.spec.models.drafts import named
from abw.core.spec.models.growing.decisions import decision_output, not_a_type
from abw.core.spec.models.resolve import Resolver
from abw.core.spec.models.sources import parse_reference
from abw.core.spec.models.tables import read_vocabulary
from abw.core.spec.text import fields
from abw.core.spec.text.document import Mapping, Node, Scalar, Sequence, at, pairs
from abw.core.spec.text.document import Mapping as Keys
from abw.core.spec.text.fields import Reach
from abw.core.spec.text.report import note, suggest
from abw.core.spec.text.sizes import noting

# What no output can be called: in a .safetensors it is no tensor.
RESERVED = "__metadata__"


def read_outputs(
    node: Keys | None, growth: Growth | None, resolver: Resolver, reach: Reach
) -> tuple[
    tuple[tuple[str, tuple[tuple[int, int], ...]], ...], tuple[DecisionOutput, ...], dict[str, Answer]
]:
    """The results that nodes give, those that are decisions, and what some are given back as."""
    drafts = resolver.drafts
    if node is not None and not node.items:
        note("a model needs an output", node.where, "outputs: {name: type.output}")
    users = []
    decisions = []
    answers = {}
    for key, value in pairs(node):
        fields.name(key, "an output")
        if key.text == RESERVED:
            note(f"'{RESERVED}' is a word of safetensors", key.where, "use another name")
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
            written = ANSWER.check(written, f"output '{key.text}'")
            value = written.get("of") or Sequence((), written.where)
        items = fields.items(value)
        if not items and not (written and not written.get("of")):
            note(f"output '{key.text}' names nothing", value.where)
        resolved = [_output(item, key, growth, resolver) for item in items]
        known = tuple(pair for pair in resolved if pair is not None)
        shapes = {tuple(drafts[t].outputs.values())[o] for t, o in known} - {None}
        if len(shapes) > 1:
            shown = ", ".join(str(list(shape or ())) for shape in sorted(shapes, key=str))
            note(f"output '{key.text}' has several shapes: {shown}", key.where)
        users.append((key.text, known))
        if written:
            kinds = Kinds().union(*(drafts[t].kinds for t, _ in known))
            shape = next(iter(shapes), None)
            answers[key.text] = read_answer(key, written, shape, kinds, resolver, reach)
    return tuple(users), tuple(decisions), answers


def _output(node: Node, key: Scalar, growth: Growth | None, resolver: Resolver) -> tuple[int, int] | None:
    drafts = resolver.drafts
    text = fields.text(node, f"output '{key.text}'")
    if text is None:
        return None
    with noting(text):
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


FIELDS = "fields"
_NAMES = "a list of names, a file with one a line, or a table with a vocabulary"


def read_answer(
    key: Scalar, node: Mapping, shape: Shape | None, kinds: Collection[str], resolver: Resolver, reach: Reach
) -> Answer:
    """What a mapping says of an output whose values have this shape, on vertices of these kinds."""
    what = f"output '{key.text}'"
    entries = ANSWER.entries(node, what, of=f" of {what}")
    written, top = entries.text("as"), entries.integer("top") or 0
    form: Form = "label" if top else "values"
    form = next((name for name in get_args(Form) if written and written.text == name), form)
    if written and written.text not in FORMS:
        message = f"'{written.text}' is not a form of output"
        note(message, written.where, suggest(written.text, FORMS))
    elif top and form != "label":
        note("'top' are labels: as: label, or without 'as'", node.where)
    if form != "values" and shape is not None and len(shape) != 1:
        note(f"{what} has the shape {list(shape)}: only a vector has a label", key.where)
    size = shape[0] if shape and len(shape) == 1 else None
    if size is not None and top > size:
        note(f"{what} has {size} labels, not {top}", node.where, "top: as many or fewer")
    names, path = _names(node.get("names"), what, resolver, reach)
    if names is not None and form == "values":
        note("names are those of labels", node.where, "as: label, as: probabilities or top: 3")
    if names is not None and size is not None and len(names) != size:
        note(f"{what} has {size} labels, and {len(names)} names", node.where, "one name a label, in order")
    return Answer(form, top, names, read_beside(key, node, kinds, resolver), path)


def read_beside(key: Scalar, node: Mapping, kinds: Collection[str], resolver: Resolver) -> tuple[str, ...]:
    """The fields that an output on vertices of these kinds wants beside its values."""
    found = []
    for name in _list(node.get(FIELDS), f"fields of output '{key.text}'"):
        known = {kind: _beside(kind, resolver.schema) for kind in sorted(kinds)}
        missing = [kind for kind in known if name.text not in known[kind]]
        if missing:
            hint = suggest(name.text, known[missing[0]])
            note(f"{missing[0]} has no field '{name.text}'", name.where, hint)
        found.append(name.text)
    return tuple(found)


def _beside(kind: str, schema: Schema) -> tuple[str, ...]:
    """What can stand beside values on vertices of a kind."""
    own = frozenset({kind})
    single = (name for name in schema.links_of(own) if not schema.links[name].many)
    return tuple(dict.fromkeys((*schema.fields_of(own), *single, VERTEX)))


def asked_beside(outputs: Mapping | None) -> frozenset[str]:
    """All names in the lists `fields` of a section `outputs`, whatever they mean."""
    lists = [node for _, value in pairs(outputs) if (node := at(value, FIELDS))]
    items = [item for node in lists for item in fields.items(node)]
    return frozenset(item.text for item in items if isinstance(item, Scalar))


def _list(node: Node | None, what: str) -> list[Scalar]:
    items = fields.items(node) if node else ()
    return [text for text in (fields.text(item, what) for item in items) if text]


def _names(
    node: Node | None, what: str, resolver: Resolver, reach: Reach
) -> tuple[tuple[str, ...] | None, Path | None]:
    """What labels are called, and the file that says so."""
    if node is None:
        return None, None
    if isinstance(node, Sequence):
        return tuple(name.text for name in _list(node, f"names of {what}")), None
    written = fields.text(node, f"names of {what}")
    if written is None:
        return None, None
    rows, path, tables = None, None, resolver.tables
    if written.text in tables:
        table = tables[written.text][1]
        if table is not None and table.vocab is None:
            note(f"table '{written.text}' has no vocabulary", written.where, _NAMES)
        rows = table.vocab.rows if table and table.vocab else None
    elif path := reach.file(written, "the names"):
        if not path.suffix and not path.exists():
            near = did_you_mean(written.text, tuple(tables))
            hint = near if near.startswith("did you mean") else _NAMES
            note(f"'{written.text}' is neither a table nor a file", written.where, hint)
            return None, None
        rows = read_vocabulary(path, written.where)
    if rows is None:
        return None, path
    called = {row: name for name, row in rows.items()}
    return tuple(called.get(row, str(row)) for row in range(max(called) + 1)), path
