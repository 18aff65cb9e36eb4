"""Where a model's inputs come from: paths followed along the schema's links to types and their outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from operator import eq, ge, gt, le, lt, ne

from abw.core.base.errors import did_you_mean
from abw.core.ir.cell import Param
from abw.core.ir.model import FieldSource, NodeSource, ParamSource, Source, TableSource, Where, ZeroSource
from abw.core.ir.schema import Hop, Hops, Kinds, Schema
from abw.core.spec.models.drafts import TypeDraft, kinds_text, named
from abw.core.spec.models.sources import LinkPath, Lookup, PathStep, parse_source
from abw.core.spec.models.tables import Tables
from abw.core.spec.text.document import Scalar
from abw.core.spec.text.report import suggest
from abw.core.spec.text.sizes import ExpressionError, noting

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


def coexist(a: TypeDraft, b: TypeDraft, kinds: Kinds) -> bool:
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
    tables: Tables
    params: Mapping[str, tuple[int, Param | None]]
    used: set[str] = field(default_factory=set)
    followed: set[str] = field(default_factory=set)

    def input(self, draft: TypeDraft, text: Scalar) -> list[Resolved] | None:
        """The alternatives of an input of `draft`; None where one of them is wrong."""
        with noting(text):
            return self._alternatives(draft, text)
        return None

    def _alternatives(self, draft: TypeDraft, text: Scalar) -> list[Resolved] | None:
        """See `input`. Errors: ExpressionError."""
        resolved: list[Resolved] = []
        whole = True
        below: NodeSource | None = None  # where it is there, another along the same way is for layer 0
        for alternative in parse_source(text.text):
            if self._missing(draft, alternative):
                continue
            if resolved and isinstance(resolved[-1].source, ZeroSource | ParamSource):
                message = f"never reached: '{resolved[-1].text}' is always there"
                raise ExpressionError(message, alternative.at, alternative.end - alternative.at)
            source: Source | None = None
            with noting(text):
                if isinstance(alternative, Lookup):
                    source = self._lookup(draft, alternative, text)
                else:
                    source = self._path(draft, alternative)
            if source is None:
                whole = False
            elif not (isinstance(source, NodeSource | TableSource) and below and source.hops == below.hops):
                shown = " ".join(text.text[alternative.at : alternative.end].split())
                resolved.append(Resolved(source, shown, alternative.at))
                if isinstance(source, NodeSource) and self._sure(draft, alternative, source):
                    below = source
        if whole and not resolved:
            hint = "say what it takes instead: …[below].h or …"
            raise ExpressionError(f"layer 0 of '{draft.key.text}' has nothing below it", hint=hint)
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

    def _lookup(self, draft: TypeDraft, lookup: Lookup, text: Scalar) -> Source:
        name = lookup.table.text
        self.used.add(name)
        if name not in self.tables:
            hint = did_you_mean(name, tuple(self.tables)) or "declare it under tables"
            lookup.table.error(f"unknown table '{name}'", hint).note(text)
        hops, last = self.field(draft.kinds, lookup.path), lookup.path.steps[-1]
        number, table = self.tables.get(name, (0, None))
        if table is None:
            raise ExpressionError
        found = self.schema.fields[last.name]
        if found.size:
            hint = f"the data has {found.doc}: a row is a whole number from 0"
            raise last.token.error(f"field '{last.name}' holds floats, and no rows of a table", hint)
        if table.vocab and not (found.text or found.rows):
            hint = "leave the vocabulary out: numbers are taken modulo rows"
            raise last.token.error(f"'{name}' is a table of words, field '{last.name}' holds numbers", hint)
        return TableSource(number, hops, last.name)

    def field(self, kinds: Kinds, path: LinkPath) -> Hops:
        """The hops to a field. Errors: ExpressionError."""
        *steps, last = path.steps
        hops, kinds = self._follow(kinds, steps)
        allowed = self.schema.fields_of(kinds)
        if last.name in allowed and last.index is None:
            return hops
        hint = suggest(last.name, allowed)
        if last.name in self.schema.links_of(kinds):
            hint = f"'{last.name}' is a link: name a field behind it"
        raise last.token.error(f"{kinds_text(kinds)} has no field '{last.name}'", hint)

    def _follow(self, kinds: Kinds, steps: Iterable[PathStep]) -> tuple[Hops, Kinds]:
        """The hops along these links, and the kinds they lead to."""
        hops: list[Hop] = []
        for step in steps:
            if step.layer is not None:
                raise step.token.error(f"no layer of '{step.name}' is here", "type[below].output")
            if step.name not in self.schema.links_of(kinds):
                hint = suggest(step.name, self.schema.links_of(kinds))
                if named(self.drafts, step.name):
                    hint = f"'{step.name}' is a type: only one of its outputs can follow"
                raise step.token.error(f"{kinds_text(kinds)} has no link '{step.name}'", hint)
            link = self.schema.links[step.name]
            if not link.many and step.index not in (None, 0, -1):
                raise step.token.error(f"link '{step.name}' leads to one vertex at most")
            self.followed.add(step.name)
            hops.append(Hop(step.name, step.index if link.many else None))
            kinds = link.reached(kinds)
        return tuple(hops), kinds

    def _path(self, draft: TypeDraft, path: LinkPath) -> Source:
        *before, output = path.steps
        if output.index is not None or output.layer is not None:
            which = output.layer if output.index is None else output.index
            message = f"'{output.name}' is an output: it cannot have an index [{which}]"
            raise output.token.error(message, "an index belongs to the link before it")
        if not before and output.name == "zeros":
            return ZeroSource()
        if not before and output.name in self.params:
            self.used.add(output.name)
            return ParamSource(self.params[output.name][0])
        if not before:
            return self._here(draft, output)
        owner = before.pop()
        hops, kinds = self._follow(draft.kinds, before)
        meant = named(self.drafts, owner.name, draft, owner.layer)
        if owner.layer and meant is None:
            again = named(self.drafts, owner.name)
            what = "is repeated otherwise than this type" if again and again.layers else "is no repeated type"
            raise owner.token.error(f"'{owner.name}' {what}: no [{owner.layer}] there")
        is_link = owner.name in self.schema.links_of(kinds) and not owner.layer
        by_type = self._named(draft, meant, hops, kinds, output) if meant and owner.index is None else None
        if not is_link:
            if by_type:
                return by_type
            if meant and owner.index is None:
                raise self._explain_type(meant, kinds, output)
            raise self._explain_owner(owner, meant, kinds)
        last, kinds = self._follow(kinds, (owner,))
        hops = (*hops, *last)
        here = [d for d in self.drafts if d.kinds & kinds]
        if by_type and any(output.name in d.outputs for d in here):
            hint = f"rename the type '{owner.name}'"
            raise owner.token.error(f"'{owner.name}' is a link and a type here: ambiguous", hint)
        found = by_type or self._any(hops, kinds, output, here) or self._field(hops, kinds, output)
        if found:
            return found
        raise self._explain(kinds, output)

    def _here(self, draft: TypeDraft, output: PathStep) -> Source:
        """An output of another type on the same vertex."""
        others = [d for d in self.drafts if d is not draft and coexist(d, draft, draft.kinds)]
        if found := self._any((), draft.kinds, output, others) or self._field((), draft.kinds, output):
            return found
        raise self._explain(draft.kinds, output, draft)

    def _field(self, hops: Hops, kinds: Kinds, output: PathStep) -> FieldSource | None:
        """A field of these vertices that is no text."""
        if output.name not in self.schema.fields_of(kinds) or self.schema.fields[output.name].text:
            return None
        return FieldSource(hops, output.name)

    def _named(
        self, draft: TypeDraft, other: TypeDraft, hops: Hops, kinds: Kinds, output: PathStep
    ) -> NodeSource | None:
        lives = bool(other.kinds & kinds) and (bool(hops) or coexist(other, draft, kinds))
        if not lives or output.name not in other.outputs:
            return None
        return NodeSource(hops, ((other.number, tuple(other.outputs).index(output.name)),))

    def _any(
        self, hops: Hops, kinds: Kinds, output: PathStep, drafts: Sequence[TypeDraft]
    ) -> NodeSource | None:
        """All types among `drafts` with this output; those that may share a vertex must be told apart."""
        found = [d for d in drafts if output.name in d.outputs]
        for a, b in combinations(found, 2):
            if coexist(a, b, kinds):
                message = f"ambiguous: types '{a.name}' and '{b.name}' both give '{output.name}' here"
                raise output.token.error(message, f"name the type: {a.name}.{output.name}")
        producers = tuple((d.number, tuple(d.outputs).index(output.name)) for d in found)
        return NodeSource(hops, producers) if found else None

    def _explain_owner(self, owner: PathStep, meant: TypeDraft | None, kinds: Kinds) -> ExpressionError:
        """What is wrong with a name before an output that is no link, and no type on these kinds."""
        if meant and meant.layers and owner.index is not None:
            hint = f"its layers are {owner.name}-0 to {owner.name}-{meant.layers - 1}"
            return owner.token.error(f"'{owner.name}' is a repeated type: no [{owner.index}] there", hint)
        names = (*self.schema.links_of(kinds), *(d.name for d in self.drafts if d.kinds & kinds))
        hint = suggest(owner.name, names)
        if self.schema.format == "json" and kinds == {"instance"} and not hint.startswith("did"):
            hint += f'; a link of the instance stands in the data: "links": {{"{owner.name}": 0}}'
        return owner.token.error(f"{kinds_text(kinds)} has no link or type '{owner.name}'", hint)

    def _explain_type(self, other: TypeDraft, kinds: Kinds, output: PathStep) -> ExpressionError:
        """Why a type gives no such output on these kinds."""
        if not other.kinds or (output.name not in other.outputs and not other.whole):
            return ExpressionError()
        if not other.kinds & kinds:
            here = [d.name for d in self.drafts if d.kinds & kinds]
            hint = f"types there: {', '.join(here)}" if here else "no type is there"
            message = f"type '{other.name}' is per {other.per}, and this is {kinds_text(kinds)}"
            return output.token.error(message, hint)
        if output.name not in other.outputs:
            hint = suggest(output.name, other.outputs)
            return output.token.error(f"type '{other.name}' has no output '{output.name}'", hint)
        message = f"no vertex has both this type and '{other.name}'"
        return output.token.error(message, "their conditions exclude each other")

    def _explain(self, kinds: Kinds, output: PathStep, own: TypeDraft | None = None) -> ExpressionError:
        """That no type (but `own`) on these kinds has the output, unless a mistake hides outputs."""
        here = [d for d in self.drafts if d.kinds & kinds and d is not own]
        if not kinds or not all(d.whole for d in here) or not all(d.kinds for d in self.drafts):
            return ExpressionError()
        fields = [name for name in self.schema.fields_of(kinds) if self.schema.fields[name].size]
        hint = suggest(output.name, [*(name for d in here for name in d.outputs), *fields])
        other = next((d for d in here if d.name == output.name), None)
        if other:
            first = next(iter(other.outputs), "…")
            hint = f"'{output.name}' is a type: name its output: {output.name}.{first}"
        elif output.name in self.schema.links_of(kinds):
            hint = f"'{output.name}' is a link: name an output behind it"
        elif output.name in self.schema.fields_of(kinds):
            hint = f"'{output.name}' is a text: a table has vectors of its words, TABLE[{output.name}]"
        elif own and output.name in own.outputs:
            hint = f"'{own.name}' gives it itself: follow a link to another vertex"
        message = f"no {'other ' * bool(own)}type on {kinds_text(kinds)} has an output '{output.name}'"
        return output.token.error(message, hint)
