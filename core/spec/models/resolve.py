"""Where a model's inputs come from: paths followed along the schema's links to types and their outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from operator import eq, ge, gt, le, lt, ne

from abw.core.base.errors import did_you_mean
from abw.core.ir.cell import Param
from abw.core.ir.model import (
    FieldSource,
    NodeSource,
    ParamSource,
    Source,
    Table,
    TableSource,
    Where,
    ZeroSource,
)
from abw.core.ir.schema import Hop, Schema
from abw.core.spec.models.drafts import TypeDraft, kinds_text, named
from abw.core.spec.models.sources import LinkPath, Lookup, PathStep, parse_source
from abw.core.spec.text.document import Scalar
from abw.core.spec.text.report import Report, suggest
from abw.core.spec.text.tokens import Token, parsed

HOLDS: Mapping[str, Callable[[int, int], bool]] = {
    "==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge
}  # fmt: skip
# Conditions that must all hold.
Conditions = Sequence[Where]


@dataclass(frozen=True, slots=True)
class Resolved:
    """An alternative of an input, with how it was written and the place of that."""

    source: Source
    text: str
    at: int


def coexist(a: TypeDraft, b: TypeDraft, kinds: frozenset[str]) -> bool:
    """Whether one vertex of these kinds can have nodes of both types."""
    return bool(a.kinds & b.kinds & kinds) and satisfiable((*a.where, *b.where))


def satisfiable(conditions: Conditions) -> bool:
    """Whether some vertex can meet all conditions."""
    return any(_hold(conditions, values) for values in _cases(conditions))


def same_vertices(some: Sequence[Conditions], others: Sequence[Conditions]) -> bool:
    """Whether a vertex meets one of some sets of conditions just where it meets one of the others."""
    cases = _cases([condition for one in (*some, *others) for condition in one])
    return all(any(_hold(c, v) for c in some) == any(_hold(c, v) for c in others) for v in cases)


def _hold(conditions: Conditions, values: Mapping[str, int]) -> bool:
    return all(HOLDS[c.comparison](values[c.field], c.value) for c in conditions)


def _cases(conditions: Conditions) -> Iterator[dict[str, int]]:
    """The fields' values to try: the only ones where an answer changes."""
    near: dict[str, set[int]] = {}
    for condition in conditions:
        values = {condition.value + step for step in (-1, 0, 1)}
        near.setdefault(condition.field, set()).update(
            values & {0, 1} if condition.field == "coin" else values
        )
    return (dict(zip(near, values, strict=True)) for values in product(*near.values()))


@dataclass(slots=True)
class Resolver:
    """Finds what names in sources mean. `used` collects tables and parameters named, `followed` links.

    `tables` and `params` hold None for what is declared, but wrongly.
    """

    schema: Schema
    drafts: Sequence[TypeDraft]
    tables: Mapping[str, tuple[int, Table | None]]
    params: Mapping[str, tuple[int, Param | None]]
    report: Report
    used: set[str] = field(default_factory=set)
    followed: set[str] = field(default_factory=set)

    def input(self, draft: TypeDraft, text: Scalar) -> list[Resolved] | None:
        """The alternatives of an input of `draft`; None where one of them is wrong."""
        written = parsed(parse_source, text, self.report)
        if written is None:
            return None
        resolved: list[Resolved] = []
        whole = True
        below: NodeSource | None = None  # where it is there, another along the same way is for layer 0
        for alternative in written:
            if self._missing(draft, alternative):
                continue
            if resolved and isinstance(resolved[-1].source, ZeroSource | ParamSource):
                length = alternative.end - alternative.at
                message = f"never reached: '{resolved[-1].text}' is always there"
                self.report.add(message, text.at(alternative.at, length))
                return None
            if isinstance(alternative, Lookup):
                source = self._lookup(draft, alternative, text)
            else:
                source = self._path(draft, alternative, text)
            if source is None:
                whole = False
            elif isinstance(source, NodeSource | TableSource) and below and source.hops == below.hops:
                continue
            else:
                shown = " ".join(text.text[alternative.at : alternative.end].split())
                resolved.append(Resolved(source, shown, alternative.at))
                if isinstance(source, NodeSource) and self._sure(draft, alternative, source):
                    below = source
        if whole and not resolved:
            message = f"layer 0 of '{draft.key.text}' has nothing below it"
            self.report.add(message, text.where, "say what it takes instead: …[below].h or …")
            return None
        return resolved if whole else None

    def _sure(self, draft: TypeDraft, alternative: LinkPath | Lookup, source: NodeSource) -> bool:
        """Whether a path is the layer below, which is there wherever the path leads."""
        if isinstance(alternative, Lookup) or not any(step.layer == "below" for step in alternative.steps):
            return False
        where = set(self.drafts[source.producers[0][0]].where)
        return not where or (not source.hops and where <= set(draft.where))

    def _missing(self, draft: TypeDraft, alternative: LinkPath | Lookup) -> bool:
        """Whether an alternative is the layer below, and there is none."""
        if isinstance(alternative, Lookup) or not draft.layers or draft.layer:
            return False
        below = [step for step in alternative.steps if step.layer == "below"]
        return bool(below) and all(named(self.drafts, step.name, draft) for step in below)

    def _note(self, message: str, token: Token, text: Scalar, hint: str = "") -> None:
        self.report.add(message, text.at(token.at, len(token.text)), hint)

    def _lookup(self, draft: TypeDraft, lookup: Lookup, text: Scalar) -> Source | None:
        name = lookup.table.text
        self.used.add(name)
        if name not in self.tables:
            hint = did_you_mean(name, tuple(self.tables)) or "declare it under tables"
            self._note(f"unknown table '{name}'", lookup.table, text, hint)
        hops, last = self.field(draft.kinds, lookup.path, text), lookup.path.steps[-1]
        number, table = self.tables.get(name, (0, None))
        if table is None or hops is None:
            return None
        found = self.schema.fields[last.name]
        if found.size:
            hint = f"the data has {found.doc}: a row is a whole number from 0"
            self._note(f"field '{last.name}' holds floats, and no rows of a table", last.token, text, hint)
            return None
        if table.vocab and not (found.text or found.rows):
            hint = "leave the vocabulary out: numbers are taken modulo rows"
            self._note(
                f"'{name}' is a table of words, field '{last.name}' holds numbers", last.token, text, hint
            )
            return None
        return TableSource(number, hops, last.name)

    def field(self, kinds: frozenset[str], path: LinkPath, text: Scalar) -> tuple[Hop, ...] | None:
        """The hops to a field; None where there is none."""
        *steps, last = path.steps
        followed = self._follow(kinds, steps, text)
        if followed is None:
            return None
        hops, kinds = followed
        allowed = self.schema.fields_of(kinds)
        if last.name in allowed and last.index is None:
            return hops
        hint = suggest(last.name, allowed)
        if last.name in self.schema.links_of(kinds):
            hint = f"'{last.name}' is a link: name a field behind it"
        self._note(f"{kinds_text(kinds)} has no field '{last.name}'", last.token, text, hint)
        return None

    def _follow(
        self, kinds: frozenset[str], steps: Iterable[PathStep], text: Scalar
    ) -> tuple[tuple[Hop, ...], frozenset[str]] | None:
        """The hops along these links, and the kinds they lead to."""
        hops: list[Hop] = []
        for step in steps:
            if step.layer is not None:
                self._note(f"no layer of '{step.name}' is here", step.token, text, "type[below].output")
                return None
            if step.name not in self.schema.links_of(kinds):
                hint = suggest(step.name, self.schema.links_of(kinds))
                if named(self.drafts, step.name):
                    hint = f"'{step.name}' is a type: only one of its outputs can follow"
                self._note(f"{kinds_text(kinds)} has no link '{step.name}'", step.token, text, hint)
                return None
            link = self.schema.links[step.name]
            index = step.index
            if not link.many and index is not None:
                if index not in (0, -1):
                    self._note(f"link '{step.name}' leads to one vertex at most", step.token, text)
                    return None
                index = None
            self.followed.add(step.name)
            hops.append(Hop(step.name, index))
            kinds = link.reached(kinds)
        return tuple(hops), kinds

    def _path(self, draft: TypeDraft, path: LinkPath, text: Scalar) -> Source | None:
        *before, output = path.steps
        if output.index is not None or output.layer is not None:
            which = output.layer if output.index is None else output.index
            message = f"'{output.name}' is an output: it cannot have an index [{which}]"
            self._note(message, output.token, text, "an index belongs to the link before it")
            return None
        if not before and output.name == "zeros":
            return ZeroSource()
        if not before and output.name in self.params:
            self.used.add(output.name)
            return ParamSource(self.params[output.name][0])
        if not before:
            return self._here(draft, output, text)
        owner = before.pop()
        followed = self._follow(draft.kinds, before, text)
        if followed is None:
            return None
        hops, kinds = followed
        meant = named(self.drafts, owner.name, draft, owner.layer)
        if owner.layer and meant is None:
            again = named(self.drafts, owner.name)
            what = "is repeated otherwise than this type" if again and again.layers else "is no repeated type"
            self._note(f"'{owner.name}' {what}: no [{owner.layer}] there", owner.token, text)
            return None
        is_link = owner.name in self.schema.links_of(kinds) and not owner.layer
        if meant and owner.index is None:
            by_type = self._named(draft, meant, hops, kinds, output)
            if not is_link:
                return by_type or self._explain_type(meant, kinds, output, text)
        else:
            by_type = None
            if not is_link:
                names = (*self.schema.links_of(kinds), *(d.name for d in self.drafts if d.kinds & kinds))
                hint = suggest(owner.name, names)
                if meant and meant.layers and owner.index is not None:
                    message = f"'{owner.name}' is a repeated type: no [{owner.index}] there"
                    hint = f"its layers are {owner.name}-0 to {owner.name}-{meant.layers - 1}"
                    self._note(message, owner.token, text, hint)
                    return None
                if self.schema.format == "json" and kinds == {"instance"} and not hint.startswith("did"):
                    hint += f'; a link of the instance stands in the data: "links": {{"{owner.name}": 0}}'
                self._note(f"{kinds_text(kinds)} has no link or type '{owner.name}'", owner.token, text, hint)
                return None
        last = self._follow(kinds, (owner,), text)
        if last is None:
            return None
        hops, kinds = (*hops, *last[0]), last[1]
        by_link = self._any(hops, kinds, output, [d for d in self.drafts if d.kinds & kinds], text)
        if by_type and by_link:
            hint = f"rename the type '{owner.name}'"
            self._note(f"'{owner.name}' is a link and a type here: ambiguous", owner.token, text, hint)
            return None
        return by_type or by_link or self._field(hops, kinds, output) or self._explain(kinds, output, text)

    def _here(self, draft: TypeDraft, output: PathStep, text: Scalar) -> Source | None:
        """An output of another type on the same vertex."""
        others = [d for d in self.drafts if d is not draft and coexist(d, draft, draft.kinds)]
        found = self._any((), draft.kinds, output, others, text)
        field = found or self._field((), draft.kinds, output)
        return field or self._explain(draft.kinds, output, text, draft)

    def _field(self, hops: tuple[Hop, ...], kinds: frozenset[str], output: PathStep) -> FieldSource | None:
        """A field of these vertices that is no text."""
        if output.name not in self.schema.fields_of(kinds) or self.schema.fields[output.name].text:
            return None
        return FieldSource(hops, output.name)

    def _named(
        self,
        draft: TypeDraft,
        other: TypeDraft,
        hops: tuple[Hop, ...],
        kinds: frozenset[str],
        output: PathStep,
    ) -> NodeSource | None:
        lives = bool(other.kinds & kinds) and (bool(hops) or coexist(other, draft, kinds))
        if not lives or output.name not in other.outputs:
            return None
        return NodeSource(hops, ((other.number, tuple(other.outputs).index(output.name)),))

    def _any(
        self,
        hops: tuple[Hop, ...],
        kinds: frozenset[str],
        output: PathStep,
        drafts: Sequence[TypeDraft],
        text: Scalar,
    ) -> NodeSource | None:
        """All types among `drafts` with this output; those that may share a vertex must be told apart."""
        found = [d for d in drafts if output.name in d.outputs]
        for number, a in enumerate(found):
            for b in found[number + 1 :]:
                if coexist(a, b, kinds):
                    message = f"ambiguous: types '{a.name}' and '{b.name}' both give '{output.name}' here"
                    self._note(message, output.token, text, f"name the type: {a.name}.{output.name}")
        if not found:
            return None
        return NodeSource(hops, tuple((d.number, tuple(d.outputs).index(output.name)) for d in found))

    def _explain_type(
        self, other: TypeDraft, kinds: frozenset[str], output: PathStep, text: Scalar
    ) -> Source | None:
        if not other.kinds or (output.name not in other.outputs and not other.whole):
            return None
        if not other.kinds & kinds:
            here = [d.name for d in self.drafts if d.kinds & kinds]
            hint = f"types there: {', '.join(here)}" if here else "no type is there"
            message = f"type '{other.name}' is per {other.per}, and this is {kinds_text(kinds)}"
            self._note(message, output.token, text, hint)
        elif output.name not in other.outputs:
            hint = suggest(output.name, other.outputs)
            self._note(f"type '{other.name}' has no output '{output.name}'", output.token, text, hint)
        else:
            message = f"no vertex has both this type and '{other.name}'"
            self._note(message, output.token, text, "their conditions exclude each other")
        return None

    def _explain(
        self, kinds: frozenset[str], output: PathStep, text: Scalar, own: TypeDraft | None = None
    ) -> Source | None:
        """Note that no type (but `own`) on these kinds has the output, unless a mistake hides outputs."""
        here = [d for d in self.drafts if d.kinds & kinds and d is not own]
        if not kinds or not all(d.whole for d in here) or not all(d.kinds for d in self.drafts):
            return None
        fields = [name for name in self.schema.fields_of(kinds) if self.schema.fields[name].size]
        hint = suggest(output.name, [*(name for d in here for name in d.outputs), *fields])
        other = next((d for d in here if d.name == output.name), None)
        if other:
            hint = (
                f"'{output.name}' is a type: name its output: {output.name}.{next(iter(other.outputs), '…')}"
            )
        elif output.name in self.schema.links_of(kinds):
            hint = f"'{output.name}' is a link: name an output behind it"
        elif output.name in self.schema.fields_of(kinds):
            hint = f"'{output.name}' is a text: a table has vectors of its words, TABLE[{output.name}]"
        elif own and output.name in own.outputs:
            hint = f"'{own.name}' gives it itself: follow a link to another vertex"
        message = f"no {'other ' * bool(own)}type on {kinds_text(kinds)} has an output '{output.name}'"
        self._note(message, output.token, text, hint)
        return None
