"""What names mean in the clauses of growth: places, numbers, words."""

from __future__ import annotations

from collections.abc import Mapping as Names
from collections.abc import Sequence
from dataclasses import dataclass, field

from abw.core.base.errors import did_you_mean
from abw.core.ir.growth import MEMBER, Clause, GrowingKind, Number, Place, Test, Tests
from abw.core.ir.model import Table
from abw.core.ir.schema import Comparison, Hop, Kinds, Schema
from abw.core.spec.models.drafts import TypeDraft, kinds_text
from abw.core.spec.models.growing.clauses import WrittenTest, parse_tests, parse_value, whole
from abw.core.spec.models.sources import LinkPath, PathStep
from abw.core.spec.models.tables import Tables
from abw.core.spec.text import fields
from abw.core.spec.text.document import Mapping, Scalar
from abw.core.spec.text.report import note, suggest
from abw.core.spec.text.sizes import ExpressionError, Token, noting

THIS = "this"


@dataclass(frozen=True, slots=True)
class Scope:
    """What a clause can name: what the deciding vertex has, by name what earlier clauses added (the number
    of the clause, the kind), and the decisions made there. `early`: no decision is made yet anywhere. `each`:
    the decision for each of whose picks the clause is done; `member`: the name and the kinds of the vertices
    for each of which it is.
    """

    kinds: Kinds
    added: Names[str, tuple[int, str]] = field(default_factory=dict)
    early: bool = False
    each: str = ""
    member: tuple[str, Kinds] | None = None

    @property
    def names(self) -> frozenset[str]:
        """What a path can begin with, beside links and fields."""
        return frozenset({THIS, *self.added, *([self.member[0]] if self.member else [])})


@dataclass(frozen=True, slots=True)
class Found:
    """Where a path leads: a place of some kinds, which may be none (`absent`), or a field there."""

    place: Place
    kinds: Kinds
    absent: bool
    field: str | None


@dataclass(slots=True)
class Scopes:
    """Finds what names in clauses mean; notes what is wrong."""

    schema: Schema
    kinds: dict[str, GrowingKind]
    tables: Tables
    closed: frozenset[str]
    """Lists of grown vertices that are whole from the round on in which the vertex is there that has them."""
    drafts: Sequence[TypeDraft]
    rows: dict[tuple[str, str], int] = field(default_factory=dict)
    """The table whose rows each kind's decision chooses, as far as clauses say so."""
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    """The number of values that each kind's decision chooses from."""
    mistaken: set[tuple[str, str]] = field(default_factory=set)
    """Kinds with decisions that are written wrongly: what their words mean is not known."""

    def table(self, number: int) -> Table | None:
        """A table by its number; None where it is declared wrongly."""
        return next((table for n, table in self.tables.values() if n == number), None)

    def tests(self, scope: Scope, text: Scalar) -> Tests:
        """Tests as they are written."""
        found: list[Test] = []
        with noting(text):
            for written in parse_tests(text.text):
                with noting(text):
                    found.append(self._test(scope, written))
        return tuple(found)

    def _test(self, scope: Scope, written: WrittenTest) -> Test:
        found, against = self.path(scope, written.path), written.against
        value = found.place if found.field is None else Number(found.place, found.field)
        if written.comparison is None or against is None:
            return Test(value, negated=written.negated)
        if found.field is None:
            last = written.path.steps[-1].token
            message = f"'{last.text}' is a vertex: test whether it is present; it cannot be compared"
            raise last.error(message, "name a field behind it")
        if against.kind == "number":
            number = self._number(found.field, found.kinds, written.comparison, against)
        else:
            number = self._word(found.field, found.kinds, against)
        return Test(value, written.comparison, number, written.negated)

    def path(self, scope: Scope, path: LinkPath, several: bool = False) -> Found:
        """Where a path leads; with `several` the last link may lead to several vertices.

        Errors: ExpressionError, here and in all that follow.
        """
        first, steps = path.steps[0], list(path.steps)
        added, kinds, absent = None, scope.kinds, False
        if first.index is None and first.name in scope.names:
            steps = steps[1:]
            if scope.member and first.name == scope.member[0]:
                added, kinds = MEMBER, scope.member[1]
            elif first.name != THIS:
                added, kind = scope.added[first.name]
                kinds = frozenset({kind})
        hops: list[Hop] = []
        for number, step in enumerate(steps):
            last = number == len(steps) - 1
            if last and step.index is None and step.name in self.schema.fields_of(kinds):
                return self._field(scope, Place(tuple(hops), added), kinds, absent, step)
            found = self._hop(kinds, step, last, last and several)
            if found.link in self.closed and Place((), added).fresh:
                message = f"'{step.name}' of a vertex just added is known only in the next round"
                raise step.token.error(message, "follow links of one vertex")
            absent = absent or self._optional(kinds, step.name)
            hops.append(found)
            kinds = self.schema.links[step.name].reached(kinds)
        return Found(Place(tuple(hops), added), kinds, absent, None)

    def _field(self, scope: Scope, place: Place, kinds: Kinds, absent: bool, step: PathStep) -> Found:
        name, known = step.name, self.schema.fields[step.name]
        if known.text or known.size:
            what = "text" if known.text else "floats"
            raise step.token.error(f"field '{name}' holds {what}", "clauses compute with whole numbers")
        if name == "coin":
            raise step.token.error("the coin is for types: 'chance' decides by chance")
        if scope.early and any(d.name == name for k in self.kinds.values() for d in k.decisions):
            message = f"'{name}' is a decision: `allow` is evaluated before decisions are made"
            raise step.token.error(message, "name links and fields")
        picked = any(k.best and k.best.name == name and k.kinds & kinds for k in self.kinds.values())
        if picked and (place.hops or place.added is not None or name != scope.each):
            message = f"'{name}' is one number only when growth has ended: several are picked there"
            raise step.token.error(message, "read a field that a clause fills")
        return Found(place, kinds, absent, name)

    def _hop(self, kinds: Kinds, step: PathStep, last: bool, several: bool) -> Hop:
        links = self.schema.links_of(kinds)
        if step.name not in links:
            names = (*links, *(self.schema.fields_of(kinds) if last else ()))
            what = "link or field" if last else "link"
            message = f"{kinds_text(kinds)} has no {what} '{step.name}'"
            raise step.token.error(message, suggest(step.name, names))
        link = self.schema.links[step.name]
        if link.many and step.index is None and not several:
            message = f"link '{step.name}' leads to several vertices"
            raise step.token.error(message, f"pick one: {step.name}[0]")
        grown = {k.name for k in self.kinds.values() if not k.given}
        if link.many and link.target & grown and step.name not in self.closed:
            hint, back = "follow links of one vertex", self.schema.derived.get(step.name)
            if back is not None:
                hint = (
                    f"let clauses set '{back.of}' only to what 'as' names: then it is known in the next round"
                )
            raise step.token.error(f"'{step.name}' is known only after growth", hint)
        if not link.many and step.index not in (None, 0, -1):
            raise step.token.error(f"link '{step.name}' leads to one vertex at most")
        return Hop(step.name, step.index if link.many else None)

    def _optional(self, kinds: Kinds, name: str) -> bool:
        """Whether a link of vertices of these kinds may lead nowhere."""
        if name == "instance":
            return False
        grown = [self.kinds[k].links.get(name) for k in kinds if k in self.kinds and not self.kinds[k].given]
        return len(grown) < len(kinds) or any(link is None or link.optional for link in grown)

    def _number(self, name: str, kinds: Kinds, comparison: Comparison, against: Token) -> int:
        """A number that a field is compared with; for == and != one that it can be."""
        number = whole(against)
        here = [kind for kind in self.kinds.values() if kind.kinds & kinds]
        tables = {rows for kind in here if (rows := self.meaning(kind, name)) is not None}
        if comparison not in ("==", "!="):
            return number
        if len(tables) == 1 and (table := self.table(min(tables))):
            require_one_meaning(table, against)
        counts = [self._count(kind, name) for kind in here if kind.kinds <= kinds or kinds <= kind.kinds]
        most = max((count for count in counts if count is not None), default=None)
        if None not in counts and most is not None and not 0 <= number < most:
            raise against.error(f"'{name}' is never {number}", f"it is 0 to {most - 1:,}")
        return number

    def _count(self, kind: GrowingKind, name: str) -> int | None:
        """How many numbers a field or decision of a kind can be, from 0 on; None where that is not known."""
        if (kind.name, name) in self.counts:
            return self.counts[kind.name, name]
        rows = kind.fields.get(name)
        table = self.table(rows) if rows is not None else None
        return table.rows if table else None

    def _word(self, name: str, kinds: Kinds, word: Token) -> int:
        """The number that a word means as a field's value."""
        here = [kind for kind in self.kinds.values() if kind.kinds & kinds]
        decisions = [d for kind in here for d in kind.decisions if d.name == name and d.allow is not None]
        if decisions:
            names = decisions[0].names or ()
            if word.text in names:
                return names.index(word.text)
            raise word.error(f"'{word.text}' is not an action of '{name}'", suggest(word.text, names))
        rows = [number for kind in here if (number := self.meaning(kind, name)) is not None]
        if rows:
            return row_of(self.table(min(rows)), word)
        if any((kind.name, name) in self.mistaken for kind in here):
            raise ExpressionError
        raise word.error(f"'{word.text}' is not a number, and '{name}' has no words", "write the number")

    def meaning(self, kind: GrowingKind, name: str) -> int | None:
        """The number of the table whose rows a field or decision of a kind holds."""
        return kind.fields.get(name, self.rows.get((kind.name, name)))


def require_one_meaning(table: Table, number: Token) -> None:
    """Refuse a number that is a row of a table, and a word of it in another row."""
    row = table.vocab.rows.get(number.text) if table.vocab else None
    if row is not None and row != int(number.text):
        hint = f"in quotes it is the word: \"'{number.text}'\"; the row can be named by its own word"
        message = f"{number.text} is a row of {table.name}, and '{number.text}' is a word of it, in row {row}"
        raise number.error(message, hint)


def row_of(table: Table | None, word: Token) -> int:
    """The row of a word; None stands for a table with mistakes."""
    if table is None:
        raise ExpressionError
    if table.vocab is None:
        raise word.error(f"'{word.text}' is no number, and table {table.name} has no words")
    for said in (word.text, word.text.strip("'")):
        if said in table.vocab.rows:
            return table.vocab.rows[said]
    hint = did_you_mean(word.text, tuple(table.vocab.rows)) or "or write its row, a number"
    message = f"'{word.text}' is not in the vocabulary {table.vocab.path.name} of {table.name}"
    raise word.error(message, hint)


def clause_of(scope: Scope, to: GrowingKind, node: Mapping, adds: Scalar, scopes: Scopes) -> Clause:
    """What a new vertex of kind `to` has, as far as it is written well; `adds` is the place that names it."""
    links: list[tuple[str, Place]] = []
    numbers: list[tuple[str, Number | int]] = []
    known = [name for name in (*to.links, *to.fields) if name not in to.origin]
    seen: set[str] = set(to.origin)
    for key, value in node.items:
        seen.add(key.text)
        if key.text not in known:
            hint = suggest(key.text, known)
            note(f"{to.name} has no link or field '{key.text}'", key.where, hint)
        elif text := fields.text(value, f"'{key.text}'"):
            with noting(text):
                if key.text in to.links:
                    links.append((key.text, _vertex(scope, to, key.text, text.text, scopes)))
                else:
                    numbers.append((key.text, _number(scope, to, key.text, text.text, scopes)))
    for name, link in to.links.items():
        if name not in seen and not link.optional:
            hint = f"say where it leads ({name}: this), or that it need not: {name}: … or none"
            note(f"link '{name}' of {to.name} is not given", adds.where, hint)
    for name in to.fields:
        if name not in seen:
            note(f"field '{name}' of {to.name} is not given", adds.where, f"{name}: …")
    return Clause(to.name, (), (), (), tuple(links), tuple(numbers), adds.where)


def _vertex(scope: Scope, to: GrowingKind, name: str, text: str, scopes: Scopes) -> Place:
    """Read the vertex that a new vertex's link leads to."""
    link, known = to.links[name], _names(scope, scopes)
    written = parse_value(text, known)
    if written.path is None:
        here, alone = kinds_text(scope.kinds), written.alone.text
        raise ExpressionError(f"{here} has no link '{alone}'", hint=suggest(alone, known))
    found = scopes.path(scope, written.path)
    if found.field is not None or written.plus:
        raise ExpressionError(f"'{text}' is a number, and {to.name}.{name} leads to a vertex")
    if not found.kinds <= link.kinds:
        raise ExpressionError(f"{to.name}.{name} is {_a(link.kinds)}, and '{text}' is {_a(found.kinds)}")
    if found.absent and not link.optional:
        message = f"'{text}' may be absent, and {to.name}.{name} must lead somewhere"
        raise ExpressionError(message, hint=f"{name}: {kinds_text(link.kinds)} or none")
    return found.place


def _a(kinds: Kinds) -> str:
    return " or ".join(f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}" for kind in sorted(kinds))


def _number(scope: Scope, to: GrowingKind, name: str, text: str, scopes: Scopes) -> Number | int:
    """Read the number that a new vertex's field has."""
    rows, names = to.fields[name], _names(scope, scopes)
    table = scopes.table(rows) if rows is not None else None
    written = parse_value(text, names)
    if written.path is None:
        if written.alone.kind != "number":
            if rows is not None:
                return row_of(table, written.alone)
            hint = suggest(written.alone.text, names)
            raise ExpressionError(f"'{text}' is neither a field nor a number", hint=hint)
        value = whole(written.alone)
        if table is not None:
            require_one_meaning(table, written.alone)
        if value < 0 or (table is not None and value >= table.rows):
            last = f" to {table.rows - 1:,}" if table is not None else ""
            raise ExpressionError(f"{to.name}.{name} cannot be {value}", hint=f"numbers are from 0{last}")
        return value
    found = scopes.path(scope, written.path)
    if found.field is None:
        raise ExpressionError(f"'{text}' is a vertex, and {to.name}.{name} a number")
    if table is not None and not _safe(found, written.plus, rows, table, scopes):
        message = f"{to.name}.{name} is a row of {table.name}, and '{text}' could name one that is not there"
        raise ExpressionError(message, hint="give it a decision among its rows, or a field of its rows")
    return Number(found.place, found.field, written.plus)


def _safe(found: Found, plus: int, rows: int | None, table: Table, scopes: Scopes) -> bool:
    """Whether a number is a row of a table, number `rows`, wherever it is one at all."""
    for kind in found.kinds:
        owner = scopes.kinds.get(kind) or next((k for k in scopes.kinds.values() if kind in k.kinds), None)
        if owner is None or plus:
            return False
        if owner.fields.get(found.field or "", -1) == rows:
            continue
        if not any(d.name == found.field for d in owner.decisions):
            return False
        # of the deciding vertex that is said where the decision is read
        if found.place.hops and scopes.counts.get((owner.name, found.field or ""), 2) > table.rows:
            return False
    return True


def _names(scope: Scope, scopes: Scopes) -> frozenset[str]:
    """What a value's path can begin with."""
    schema = scopes.schema
    return frozenset({*scope.names, *schema.links_of(scope.kinds), *schema.fields_of(scope.kinds)})
