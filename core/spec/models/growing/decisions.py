"""What growing kinds choose: decisions, and the numbers and words that they can be."""

from __future__ import annotations

from abw.core.base.errors import did_you_mean
from abw.core.ir.growth import Decision, DecisionOutput, GrowingKind, Growth
from abw.core.spec.keys.model import CHOICE
from abw.core.spec.models.drafts import TypeDraft, kinds_text
from abw.core.spec.models.growing.clauses import WrittenChoice, parse_choice
from abw.core.spec.models.growing.places import Scope, Scopes
from abw.core.spec.text import fields
from abw.core.spec.text.document import Mapping, Node, Scalar, pairs, text_at
from abw.core.spec.text.report import note, suggest
from abw.core.spec.text.sizes import ExpressionError, noting

# How one of several scores is chosen, or some are.
_SCORED = CHOICE.without("allow").keys


def decisions_of(
    kind: GrowingKind, node: Mapping, then: list[Mapping], scopes: Scopes
) -> tuple[Decision, ...]:
    """What is chosen; of what is written wrongly the name alone, which clauses may use."""
    values = {key.text: (key, value) for key, value in pairs(node, "choose")}
    made = []
    for decision in kind.decisions:
        name, value = values[decision.name]
        found = _decision(kind, name, value, then, scopes)
        if found is None:
            scopes.mistaken.add((kind.name, decision.name))
        made.append(found or decision)
    return tuple(made)


def _decision(
    kind: GrowingKind, name: Scalar, value: Node, clauses: list[Mapping], scopes: Scopes
) -> Decision | None:
    written = _written(name, value)
    if written is None:
        return None
    how, text, allowed = written
    with noting(text):
        choice = parse_choice(text.text, how)
        if choice.type is None:
            scopes.counts[kind.name, name.text] = 2
            return Decision(name.text, "chance", -1, -1, choice.limit, None, None, name.where)
        draft, output, count = _scores(kind, choice, scopes)
        tests, names, scores = None, None, f"{draft.name}.{tuple(draft.outputs)[output]}"
        if allowed is not None:
            names = tuple(action.text for action, _ in allowed.items)
            if len(names) != count:
                message = f"{scores} has {count:,} numbers, and 'allow' names {len(names)}"
                hint = "one test for each number, in order"
                ExpressionError(message, choice.at, len(scores), hint).note(text)
            scope = Scope(kind.kinds, early=True)
            conditions = [fields.text(item, f"allow of '{a.text}'") for a, item in allowed.items]
            tests = tuple(scopes.tests(scope, c) if c else () for c in conditions)
        elif choice.how in _SCORED:
            names = _checked_rows(kind, name.text, count, scores, clauses, scopes)
        scopes.counts[kind.name, name.text] = 2 if choice.how == "over" else count
        limit, width = choice.limit, choice.width
        return Decision(name.text, choice.how, draft.number, output, limit, tests, names, name.where, width)
    return None


def _written(name: Scalar, value: Node) -> tuple[str, Scalar, Mapping | None] | None:
    """How a decision is made where that is a key, what it reads, and its section `allow`."""
    if not isinstance(value, Mapping):
        text = fields.text(value, f"decision '{name.text}'")
        return ("", text, None) if text else None
    value = CHOICE.check(value, f"decision '{name.text}'", name.where)
    ways = [h for h in _SCORED if value.get(h) is not None]
    if not ways:
        note(f"decision '{name.text}' has no argmax", name.where, "{argmax: T.o, allow: {…}}")
        return None
    how = ways[0]
    if len(ways) > 1 and (other := value.key(ways[1])):
        message = f"decision '{name.text}' has {how} and {ways[1]}"
        note(message, other.where, "one of the two chooses: leave out the other")
        return None
    allowed = fields.mapping(value.get("allow"), f"allow of '{name.text}'")
    text = fields.text(value.get(how), how)
    return (how, text, allowed) if text else None


def _scores(kind: GrowingKind, choice: WrittenChoice, scopes: Scopes) -> tuple[TypeDraft, int, int]:
    """The type and output that a decision reads, on every vertex of its kind, and how many numbers it has.

    Errors: ExpressionError.
    """
    drafts, first, second = scopes.drafts, choice.type, choice.output
    assert first is not None and second is not None
    draft = next((d for d in drafts if d.name == first.text), None)
    if draft is None:
        raise first.error(f"unknown type '{first.text}'", suggest(first.text, [d.name for d in drafts]))
    if not kind.kinds <= draft.kinds or draft.where:
        if not draft.kinds:
            raise ExpressionError
        what = "has a condition" if kind.kinds <= draft.kinds else f"is per {draft.per}"
        message = f"type '{draft.name}' {what}: it is not on every {kinds_text(kind.kinds)}"
        raise first.error(message, "what is decided needs scores everywhere")
    if draft.reduction:
        message = f"'{draft.name}' is a {draft.reduction}: scores come from a cell"
        raise first.error(message, "read it in a cell of its own")
    shape = draft.outputs.get(second.text)
    if shape is None:
        if second.text in draft.outputs or not draft.whole:
            raise ExpressionError
        hint = suggest(second.text, draft.outputs)
        raise second.error(f"type '{draft.name}' has no output '{second.text}'", hint)
    scores, count = f"{draft.name}.{second.text}", shape[0] if len(shape) == 1 else 0
    if not count or (choice.how == "over" and count != 1):
        needs = "> needs one number" if choice.how == "over" else f"{choice.how} needs a vector of scores"
        raise ExpressionError(f"{scores} is {list(shape)}: {needs}", choice.at, len(scores))
    return draft, tuple(draft.outputs).index(second.text), count


def _checked_rows(
    kind: GrowingKind, name: str, count: int, scores: str, clauses: list[Mapping], scopes: Scopes
) -> tuple[str, ...] | None:
    """The words that a decision's numbers mean, by the table of a field that it is given to."""
    names = None
    for clause in clauses:
        to = scopes.kinds.get(text_at(clause, "add"))
        for key, value in clause.items:
            number = to.fields.get(key.text) if to else None
            if number is None or text_at(value).strip() != name:
                continue
            table = scopes.table(number)
            if table is not None and count > table.rows:
                message = (
                    f"{scores} has {count:,} numbers, table {table.name} has {table.rows:,} rows: "
                    f"'{key.text}: {name}' could name a row that is not there"
                )
                if (kind.name, name) not in scopes.rows:
                    note(message, key.where, "as many rows as scores")
            scopes.rows.setdefault((kind.name, name), number)
            if table is not None and table.vocab is not None and names is None:
                words = table.words
                without = [row for row in range(min(count, table.rows)) if row not in words]
                if without:
                    message = (
                        f"{scores} has {count:,} numbers, and row {without[0]} of table {table.name} has no "
                        f"word in {table.vocab.path.name}: '{key.text}: {name}' could name it"
                    )
                    note(message, key.where, "a word for each row, or as many scores as words")
                names = tuple(words.get(row, "") for row in range(count))
    return names


def decision_output(name: str, value: Node, growth: Growth) -> DecisionOutput | None:
    """The decision that an output names as KIND.DECISION; None where it is not one."""
    if not isinstance(value, Scalar):
        return None
    for kind in growth.kinds:
        for decision in kind.decisions:
            if value.text.strip() == f"{kind.name}.{decision.name}":
                return DecisionOutput(name, kind.kinds, decision)
    return None


def not_a_type(output: str, kind: str, name: str, growth: Growth) -> tuple[str, str] | None:
    """What is wrong with `KIND.NAME` where TYPE.OUTPUT is wanted, and a hint; None for what is no kind.

    `output` is the name of the output that it is written for.
    """
    found = next((k for k in growth.kinds if k.name == kind), None)
    if found is None:
        return None
    decisions = [decision.name for decision in found.decisions]
    if name in decisions:
        return f"{kind}.{name} is a decision, which comes back as it is", f"{output}: {kind}.{name}"
    known = (
        f"its decisions: {', '.join(decisions)}" if decisions else "it decides nothing: name a TYPE.OUTPUT"
    )
    return f"'{kind}' is a kind that has no decision '{name}'", did_you_mean(name, decisions) or known
