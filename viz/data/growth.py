"""What grows, in words: the decisions at a vertex of a kind, and the vertices that come of them."""

from __future__ import annotations

from collections.abc import Sequence

from abw.core.ir.growth import MEMBER, Clause, Decision, GrowingKind, Number, Place, Test
from abw.core.ir.model import Model
from abw.viz.data.pictures import Block, SlotView


def growth_block(model: Model, kind: GrowingKind) -> Block:
    """A kind that grows or decides: what it chooses (inputs), its fields (outputs), what it adds (notes)."""
    names = _Names(model, kind)
    start = [f"starts with {names.clause(kind.start)}"] if kind.start else []
    return Block(
        "growth",
        kind.name,
        "decides" if kind.given else f"grows, at most {kind.most}",
        inputs=tuple(SlotView(d.name, (), names.decision(d)) for d in kind.decisions),
        outputs=tuple(SlotView(name, ()) for name in (*kind.fields, *(d.name for d in kind.decisions))),
        notes=(*start, *(names.clause(clause, decided=True) for clause in kind.clauses)),
    )


class _Names:
    """Numbers by the words that they stand for: rows of tables with a vocabulary, what decisions choose."""

    def __init__(self, model: Model, kind: GrowingKind) -> None:
        self.model, self.kind = model, kind
        growing = model.growth.kinds if model.growth else ()
        self.choices = {d.name: d.names for k in growing for d in k.decisions}
        self.tables = {name: table for k in growing for name, table in k.fields.items()}

    def value(self, field: str, number: int) -> str:
        """A field's number as its word, if it has one."""
        names: Sequence[str] = self.choices.get(field) or ()
        if 0 <= number < len(names):
            return names[number]
        table = self.tables.get(field)
        vocab = self.model.tables[table].vocab if table is not None else None
        words = (word for word, row in vocab.rows.items() if row == number) if vocab else iter(())
        return next(words, str(number))

    def decision(self, decision: Decision) -> str:
        if decision.how == "chance":
            return f"chance {decision.limit:g}"
        kind = self.model.types[decision.type]
        said = f"{kind.name}.{kind.outputs[decision.output].name}"
        match decision.how:
            case "over":
                return f"{said} > {decision.limit:g}"
            case how:
                allowed = (
                    f"{self.choices_of(decision, i)} if {self.tests(tests)}"
                    for i, tests in enumerate(decision.allow or ())
                    if tests
                )
                way = f"best {decision.width} of" if how == "best" else how
                return "; ".join([f"{way} {said}", *allowed])

    def choices_of(self, decision: Decision, number: int) -> str:
        return decision.names[number] if decision.names else str(number)

    def clause(self, clause: Clause, decided: bool = False) -> str:
        """`add step unless next == </s>: prev this, said next`."""
        gives = [f"{name} {self.place(place)}" for name, place in clause.links]
        for name, value in clause.fields:
            said = self.number(value) if isinstance(value, Number) else self.value(name, value)
            gives.append(f"{name} {said}")
        head = f"add {clause.adds}" if decided else clause.adds
        each = f" for each {self.kind.best.name}" if decided and self.kind.best else ""
        if clause.each:
            each = f" for each of {self.place(Place(clause.each))}"
        when = f" when {self.tests(clause.when)}" if clause.when else ""
        unless = f" unless {self.tests(clause.unless)}" if clause.unless else ""
        return f"{head}{each}{when}{unless}" + (f": {', '.join(gives)}" if gives else "")

    def tests(self, tests: Sequence[Test]) -> str:
        return " and ".join(map(self.test, tests))

    def test(self, test: Test) -> str:
        value = test.value
        said = self.number(value) if isinstance(value, Number) else self.place(value)
        if test.comparison:
            field = value.field if isinstance(value, Number) else ""
            said += f" {test.comparison} {self.value(field, test.against)}"
        return f"not {said}" if test.negated else said

    def number(self, value: Number) -> str:
        path = self.place(value.place)
        said = value.field if path == "this" else f"{path}.{value.field}"
        return said + (f" {'+' if value.plus > 0 else '-'} {abs(value.plus)}" if value.plus else "")

    def place(self, place: Place) -> str:
        hops = ".".join(hop.link + ("" if hop.index is None else f"[{hop.index}]") for hop in place.hops)
        if place.added == MEMBER:
            return "it" + (f".{hops}" if hops else "")
        if place.added is not None:
            return f"{self.kind.clauses[place.added].adds} added" + (f".{hops}" if hops else "")
        return hops or "this"
