"""What names mean in the clauses of growth: places, numbers, words."""

from __future__ import annotations

from collections.abc import Mapping as Names
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from abw.core.base.errors import did_you_mean
from abw.core.ir.growth import MEMBER, Clause, GrowingKind, Number, Place, Test, Tests
from abw.core.ir.model import Table
from abw.core.ir.schema import Comparison, Hop, Schema
from abw.core.spec.models.drafts import TypeDraft, kinds_text
from abw.core.spec.models.growing.clauses import WrittenTest, parse_tests, parse_value, whole
from abw.core.spec.models.sources import LinkPath, PathStep
from abw.core.spec.text import fields
from abw.core.spec.text.document import Mapping, Scalar
from abw.core.spec.text.report import Report, suggest
from abw.core.spec.text.tokens import Token, parsed

THIS = "this"


@dataclass(frozen=True, slots=True)
class Scope:
    """What a clause can name: what the deciding vertex has, by name what earlier clauses added (the number
    of the clause, the kind), and the decisions made there. `early`: no decision is made yet anywhere. `each`:
    the decision for each of whose picks the clause is done; `member`: the name and the kinds of the vertices
    for each of which it is.
    """

    kinds: frozenset[str]
    added: Names[str, tuple[int, str]] = field(default_factory=dict)
    early: bool = False
    each: str = ""
    member: tuple[str, frozenset[str]] | None = None

    @property
    def names(self) -> frozenset[str]:
        """What a path can begin with, beside links and fields."""
        return frozenset({THIS, *self.added, *([self.member[0]] if self.member else [])})


@dataclass(frozen=True, slots=True)
class Found:
    """Where a path leads: a place of some kinds, which may be none (`absent`), or a field there."""

    place: Place
    kinds: frozenset[str]
    absent: bool
    field: str | None


@dataclass(slots=True)
class Scopes:
    """Finds what names in clauses mean; notes what is wrong."""

    schema: Schema
    kinds: dict[str, GrowingKind]
    tables: Names[str, tuple[int, Table | None]]
    closed: frozenset[str]
    """Lists of grown vertices that are whole from the round on in which the vertex is there that has them."""
    report: Report
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
        written = parsed(parse_tests, text, self.report)
        found = [self._test(scope, test, text) for test in written or ()]
        return tuple(test for test in found if test is not None)

    def _test(self, scope: Scope, written: WrittenTest, text: Scalar) -> Test | None:
        found = self.path(scope, written.path, text)
        if found is None:
            return None
        value = found.place if found.field is None else Number(found.place, found.field)
        if written.comparison is None or written.against is None:
            return Test(value, negated=written.negated)
        if found.field is None:
            last = written.path.steps[-1].token
            message = f"'{last.text}' is a vertex: test whether it is present; it cannot be compared"
            self._note(message, last, text, "name a field behind it")
            return None
        against = written.against
        if against.kind == "number":
            number = self._number(found.field, found.kinds, written.comparison, against, text)
        else:
            number = self._word(found.field, found.kinds, against, text)
        return None if number is None else Test(value, written.comparison, number, written.negated)

    def path(self, scope: Scope, path: LinkPath, text: Scalar, several: bool = False) -> Found | None:
        """Where a path leads; with `several` the last link may lead to several vertices."""
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
                return self._field(scope, Place(tuple(hops), added), kinds, absent, step, text)
            found = self._hop(kinds, step, last, text, last and several)
            if found is None:
                return None
            if found.link in self.closed and Place((), added).fresh:
                message = f"'{step.name}' of a vertex just added is known only in the next round"
                self._note(message, step.token, text, "follow links of one vertex")
                return None
            absent = absent or self._optional(kinds, step.name)
            hops.append(found)
            kinds = self.schema.links[step.name].reached(kinds)
        return Found(Place(tuple(hops), added), kinds, absent, None)

    def _field(
        self, scope: Scope, place: Place, kinds: frozenset[str], absent: bool, step: PathStep, text: Scalar
    ) -> Found | None:
        name = step.name
        if self.schema.fields[name].text or self.schema.fields[name].size:
            what = "text" if self.schema.fields[name].text else "floats"
            self._note(f"field '{name}' holds {what}", step.token, text, "clauses compute with whole numbers")
            return None
        if name == "coin":
            self._note("the coin is for types: 'chance' decides by chance", step.token, text)
            return None
        if scope.early and any(d.name == name for k in self.kinds.values() for d in k.decisions):
            message = f"'{name}' is a decision: `allow` is evaluated before decisions are made"
            self._note(message, step.token, text, "name links and fields")
            return None
        picked = any(k.best and k.best.name == name and k.kinds & kinds for k in self.kinds.values())
        if picked and (place.hops or place.added is not None or name != scope.each):
            message = f"'{name}' is one number only when growth has ended: several are picked there"
            self._note(message, step.token, text, "read a field that a clause fills")
            return None
        return Found(place, kinds, absent, name)

    def _hop(
        self, kinds: frozenset[str], step: PathStep, last: bool, text: Scalar, several: bool
    ) -> Hop | None:
        links = self.schema.links_of(kinds)
        if step.name not in links:
            names = (*links, *(self.schema.fields_of(kinds) if last else ()))
            what = "link or field" if last else "link"
            message = f"{kinds_text(kinds)} has no {what} '{step.name}'"
            self._note(message, step.token, text, suggest(step.name, names))
            return None
        link = self.schema.links[step.name]
        if link.many and step.index is None and not several:
            message = f"link '{step.name}' leads to several vertices"
            self._note(message, step.token, text, f"pick one: {step.name}[0]")
            return None
        grown = {k.name for k in self.kinds.values() if not k.given}
        if link.many and link.target & grown and step.name not in self.closed:
            message = f"'{step.name}' is known only after growth"
            hint, back = "follow links of one vertex", self.schema.derived.get(step.name)
            if back is not None:
                hint = (
                    f"let clauses set '{back.of}' only to what 'as' names: then it is known in the next round"
                )
            self._note(message, step.token, text, hint)
            return None
        if not link.many and step.index not in (None, 0, -1):
            self._note(f"link '{step.name}' leads to one vertex at most", step.token, text)
            return None
        return Hop(step.name, step.index if link.many else None)

    def _optional(self, kinds: frozenset[str], name: str) -> bool:
        """Whether a link of vertices of these kinds may lead nowhere."""
        if name == "instance":
            return False
        grown = [self.kinds[k].links.get(name) for k in kinds if k in self.kinds and not self.kinds[k].given]
        return len(grown) < len(kinds) or any(link is None or link.optional for link in grown)

    def _number(
        self, name: str, kinds: frozenset[str], comparison: Comparison, against: Token, text: Scalar
    ) -> int | None:
        """A number that a field is compared with; for == and != one that it can be."""
        number = whole(against)
        here = [kind for kind in self.kinds.values() if kind.kinds & kinds]
        tables = {rows for kind in here if (rows := self.meaning(kind, name)) is not None}
        if comparison not in ("==", "!="):
            return number
        table = self.table(min(tables)) if len(tables) == 1 else None
        if table and self.two_meanings(table, against, text):
            return None
        counts = [self._count(kind, name) for kind in here if kind.kinds <= kinds or kinds <= kind.kinds]
        most = max((count for count in counts if count is not None), default=None)
        if None not in counts and most is not None and not 0 <= number < most:
            self._note(f"'{name}' is never {number}", against, text, f"it is 0 to {most - 1:,}")
            return None
        return number

    def two_meanings(self, table: Table, number: Token, text: Scalar) -> bool:
        """Note a number that is a row of a table, and a word of it in another row."""
        row = table.vocab.rows.get(number.text) if table.vocab else None
        if row is None or row == int(number.text):
            return False
        message = f"{number.text} is a row of {table.name}, and '{number.text}' is a word of it, in row {row}"
        hint = f"in quotes it is the word: \"'{number.text}'\"; the row can be named by its own word"
        self._note(message, number, text, hint)
        return True

    def _count(self, kind: GrowingKind, name: str) -> int | None:
        """How many numbers a field or decision of a kind can be, from 0 on; None where that is not known."""
        if (kind.name, name) in self.counts:
            return self.counts[kind.name, name]
        rows = kind.fields.get(name)
        table = self.table(rows) if rows is not None else None
        return table.rows if table else None

    def _word(self, name: str, kinds: frozenset[str], word: Token, text: Scalar) -> int | None:
        """The number that a word means as a field's value."""
        here = [kind for kind in self.kinds.values() if kind.kinds & kinds]
        decisions = [d for kind in here for d in kind.decisions if d.name == name and d.allow is not None]
        if decisions:
            names = decisions[0].names or ()
            if word.text in names:
                return names.index(word.text)
            message = f"'{word.text}' is not an action of '{name}'"
            self._note(message, word, text, suggest(word.text, names))
            return None
        rows = {number for kind in here if (number := self.meaning(kind, name)) is not None}
        for table in map(self.table, sorted(rows)):
            return self.row(table, word, text) if table else None
        if any((kind.name, name) in self.mistaken for kind in here):
            return None
        message = f"'{word.text}' is not a number, and '{name}' has no words"
        self._note(message, word, text, "write the number")
        return None

    def meaning(self, kind: GrowingKind, name: str) -> int | None:
        """The number of the table whose rows a field or decision of a kind holds."""
        return kind.fields.get(name, self.rows.get((kind.name, name)))

    def row(self, table: Table, word: Token, text: Scalar) -> int | None:
        """The row of a word."""
        if table.vocab is None:
            self._note(f"'{word.text}' is no number, and table {table.name} has no words", word, text)
            return None
        for said in (word.text, word.text.strip("'")):
            if said in table.vocab.rows:
                return table.vocab.rows[said]
        hint = did_you_mean(word.text, tuple(table.vocab.rows)) or "or write its row, a number"
        message = f"'{word.text}' is not in the vocabulary {table.vocab.path.name} of {table.name}"
        self._note(message, word, text, hint)
        return None

    def _note(self, message: str, token: Token, text: Scalar, hint: str = "") -> None:
        self.report.add(message, text.at(token.at, len(token.text)), hint)


def clause_of(scope: Scope, to: GrowingKind, node: Mapping, adds: Scalar, scopes: Scopes) -> Clause:
    """What a new vertex of kind `to` has, as far as it is written well; `adds` is the place that names it."""
    report = scopes.report
    links: list[tuple[str, Place]] = []
    numbers: list[tuple[str, Number | int]] = []
    known = [name for name in (*to.links, *to.fields) if name not in to.origin]
    seen: set[str] = set(to.origin)
    for key, value in node.items:
        seen.add(key.text)
        if key.text not in known:
            hint = suggest(key.text, known)
            report.add(f"{to.name} has no link or field '{key.text}'", key.where, hint)
        elif text := fields.text(value, f"'{key.text}'", report):
            if key.text in to.links:
                if place := _vertex(scope, to, key.text, text, scopes):
                    links.append((key.text, place))
            elif (number := _number(scope, to, key.text, text, scopes)) is not None:
                numbers.append((key.text, number))
    for name, link in to.links.items():
        if name not in seen and not link.optional:
            hint = f"say where it leads ({name}: this), or that it need not: {name}: … or none"
            report.add(f"link '{name}' of {to.name} is not given", adds.where, hint)
    for name in to.fields:
        if name not in seen:
            report.add(f"field '{name}' of {to.name} is not given", adds.where, f"{name}: …")
    return Clause(to.name, (), (), (), tuple(links), tuple(numbers), adds.where)


def _vertex(scope: Scope, to: GrowingKind, name: str, text: Scalar, scopes: Scopes) -> Place | None:
    """Read the vertex that a new vertex's link leads to."""
    report, link = scopes.report, to.links[name]
    known = _names(scope, scopes)
    written = parsed(partial(parse_value, names=known), text, report)
    if written is None:
        return None
    if written.path is None:
        here = kinds_text(scope.kinds)
        hint = suggest(written.alone.text, known)
        report.add(f"{here} has no link '{written.alone.text}'", text.where, hint)
        return None
    found = scopes.path(scope, written.path, text)
    if found is None:
        return None
    if found.field is not None or written.plus:
        report.add(f"'{text.text}' is a number, and {to.name}.{name} leads to a vertex", text.where)
    elif not found.kinds <= link.kinds:
        message = f"{to.name}.{name} is {_a(link.kinds)}, and '{text.text}' is {_a(found.kinds)}"
        report.add(message, text.where)
    elif found.absent and not link.optional:
        message = f"'{text.text}' may be absent, and {to.name}.{name} must lead somewhere"
        report.add(message, text.where, f"{name}: {kinds_text(link.kinds)} or none")
    else:
        return found.place
    return None


def _a(kinds: frozenset[str]) -> str:
    return " or ".join(f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}" for kind in sorted(kinds))


def _number(scope: Scope, to: GrowingKind, name: str, text: Scalar, scopes: Scopes) -> Number | int | None:
    """Read the number that a new vertex's field has."""
    report, rows = scopes.report, to.fields[name]
    table = scopes.table(rows) if rows is not None else None
    written = parsed(partial(parse_value, names=_names(scope, scopes)), text, report)
    if written is None:
        return None
    if written.path is None:
        if written.alone.kind != "number":
            if table is not None:
                return scopes.row(table, written.alone, text)
            if rows is None:
                hint = suggest(written.alone.text, _names(scope, scopes))
                report.add(f"'{text.text}' is neither a field nor a number", text.where, hint)
            return None
        value = whole(written.alone)
        if table is not None and scopes.two_meanings(table, written.alone, text):
            return None
        if value < 0 or (table is not None and value >= table.rows):
            last = f" to {table.rows - 1:,}" if table is not None else ""
            report.add(f"{to.name}.{name} cannot be {value}", text.where, f"numbers are from 0{last}")
            return None
        return value
    found = scopes.path(scope, written.path, text)
    if found is None:
        return None
    if found.field is None:
        report.add(f"'{text.text}' is a vertex, and {to.name}.{name} a number", text.where)
        return None
    if rows is not None and not _safe(found, written.plus, rows, scopes):
        name_of = table.name if table else "a table"
        message = (
            f"{to.name}.{name} is a row of {name_of}, and '{text.text}' could name one that is not there"
        )
        report.add(message, text.where, "give it a decision among its rows, or a field of its rows")
        return None
    return Number(found.place, found.field, written.plus)


def _safe(found: Found, plus: int, rows: int, scopes: Scopes) -> bool:
    """Whether a number is a row of a table wherever it is one at all."""
    table = scopes.table(rows)
    if table is None:
        return True  # noted elsewhere
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
