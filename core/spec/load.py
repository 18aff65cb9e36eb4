"""A model's file to a checked model: everything that is wrong with it is said at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from abw.core.base.errors import AbwError, Problem, SpecError, missing_file
from abw.core.base.files import why_no_file
from abw.core.ir.cell import Cell, Param
from abw.core.ir.formats import BESIDE, SCHEMAS
from abw.core.ir.growth import Growth
from abw.core.ir.model import DataSpec, FieldSource, Model, NodeType, Table, Vocabulary
from abw.core.ir.phases import phases_of
from abw.core.ir.schema import ARRAYS, Kinds, Schema
from abw.core.ir.training import Training
from abw.core.spec.cells.files import make, read_cell
from abw.core.spec.keys.model import DATA, MODEL
from abw.core.spec.models.derived import with_derived
from abw.core.spec.models.drafts import Cells, draft_types
from abw.core.spec.models.growing.section import grow, optional_inputs, sketch
from abw.core.spec.models.losses import Outputs
from abw.core.spec.models.outputs import asked_beside, read_outputs
from abw.core.spec.models.resolve import Resolver
from abw.core.spec.models.sections import declared, owners_of
from abw.core.spec.models.train import read_training
from abw.core.spec.models.weights import read_weights
from abw.core.spec.models.wiring import connect, finish, share
from abw.core.spec.text import fields
from abw.core.spec.text.document import Mapping as Keys
from abw.core.spec.text.document import Scalar, pairs, read, text_at
from abw.core.spec.text.fields import Reach
from abw.core.spec.text.report import note, report, reporting
from abw.core.spec.text.sizes import known_dims, too_large

DEFAULT_SIZE = 64
# Keys of `data` that belong to one format.
_OF_FORMATS = {"frequency": "tags", "tokens": "words", "beside": "json"}
# What other files begin with, what they are, and what takes them.
_OTHERS = {
    "cell": ("cell", "`abw layout` and `abw check` take cells; a model file begins with model: NAME"),
    "layout": ("layout of batches", "`abw layout {}` shows it"),
    "library": ("library", "programs call its cells: abw.cells(FILE) in Python"),
}


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the command line says instead of the spec.

    `hoist`: products of recurrent cells that can be computed beforehand become types of their own (see
    `abw.core.cell.hoist`), of all types or those named; None leaves that to whoever runs the model.
    `allow_outside`: the files that the spec names may lie outside its folder.
    `head`: what gives the model's data where the spec names none that are there.
    `instances`: what those are made of that the model is opened with instead of its data. `words`: of tables
    by their names the words of each row, of which the first stands for all that are not among them; a table
    with a vocabulary of its own keeps that.
    """

    dims: Mapping[str, int] = field(default_factory=dict)
    data: Path | None = None
    head: Callable[[], Path] | None = None
    limit: int | None = None
    batch: int | None = None
    seed: int | None = None
    hoist: bool | tuple[str, ...] | None = None
    weights: Path | None = None
    allow_outside: bool = False
    instances: Schema | None = None
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@reporting()
def load_cell(path: Path, dims: Mapping[str, int] | None = None) -> Cell:
    """A cell on its own; every dim is 64 unless `dims` says otherwise.

    Errors: SpecError with all that is wrong in the file; AbwError for a dim that the cell does not have.
    """
    file = read_cell(path)
    if file is None:
        return report().checked(None, path, "cell")
    names = tuple(scalar.text for scalar in file.dims)
    known_dims(dims or {}, names)
    cell = make(file, {name: (dims or {}).get(name, DEFAULT_SIZE) for name in names})
    return report().checked(cell, path, "cell")


@reporting()
def is_cell(path: Path) -> bool:
    """Whether a file says that it is a cell. Errors: SpecError where it cannot be read as a spec at all."""
    top = fields.mapping(read(path), "a model")
    report().check()
    return top is not None and top.get("cell") is not None and top.get("model") is None


@reporting()
def load_model(
    path: Path, overrides: Overrides | None = None, schema_of: Callable[[Path, str], Schema] | None = None
) -> Model:
    """A checked model. `schema_of` finds the schema of a `json` data file.

    Errors: SpecError with all that is wrong in the file and its cells; AbwError for an override that names
    no dim or has an impossible value. Cost: linear in the files, beside the discovery of a json schema.
    """
    top = fields.mapping(read(path), "a model")
    if top is None:
        return report().checked(None, path, "model")
    for key, (what, hint) in _OTHERS.items():
        if top.get(key) is not None and top.get("model") is None:
            note(f"{path} is a {what}, not a model", top.where, hint.format(path))
            report().check()
    given = overrides or Overrides()
    loader = _Loader(path, top, given, schema_of, Reach(path.parent, given.allow_outside))
    model = loader.model()
    too_large(loader.section("dims"), loader.dims, given.dims)
    return report().checked(model, path, "model")


@dataclass(slots=True)
class _Loader:
    """One model's file, top to bottom."""

    path: Path
    top: Keys
    overrides: Overrides
    schema_of: Callable[[Path, str], Schema] | None
    reach: Reach
    dims: Mapping[str, int | None] = field(default_factory=dict)

    def model(self) -> Model | None:
        top = self.top = MODEL.check(self.top, "a model")
        name, found = declared(top, "model", self.overrides.dims, self.reach)
        tables = {name: (number, self._with_words(table)) for name, (number, table) in found.tables.items()}
        found = replace(found, tables=tables)
        cells = found.cells
        dims = self.dims = cells.dims
        data = self._data()
        schema = self._schema(data)
        own_links, grows, outputs = map(self.section, ("links", "grow", "outputs"))
        schema = with_derived(schema, own_links, grows) if schema else None
        beside = asked_beside(outputs)
        growing = sketch(grows, schema, own_links, tables, beside) if grows and schema else None
        schema = growing.schema if growing else schema
        types = self.section("types")
        if types is not None and not types.items:
            note("a model needs a type", types.where)
        unknown = Schema("", ())
        drafts = draft_types(types, cells, schema or unknown) if types and schema else []
        if schema is None or types is None or drafts is None:
            return None
        resolver = Resolver(schema, drafts, tables, found.params)
        wires = connect(resolver)
        shared, numbers = share(resolver)
        growth = None
        if growing:
            resolver.used |= growing.used
            optional_inputs(wires, growing, resolver)
            growth = grow(growing, resolver)
        results, decisions, answers = read_outputs(outputs, growth, resolver, self.reach)
        growth = replace(growth, outputs=decisions) if growth else None
        owners = owners_of(drafts, (*tables, *found.params), shared)
        weights = read_weights(top, self.overrides.weights, self.reach, owners, dims)
        training = self._training(results, growth, resolver, shared)
        self._unused(resolver, cells)
        if len(report()) or data is None or name is None:
            return None
        finished = finish(drafts, wires, numbers)
        if growth:
            self._floats(finished, schema)
            report().extend(phases_of(finished, schema, growth)[1])
        return Model(
            name.text,
            (
                self.path,
                *found.files,
                *dict.fromkeys(answer.path for answer in answers.values() if answer.path),
            ),
            {key: value for key, value in dims.items() if value is not None},
            data,
            found.whole,
            shared,
            finished,
            results,
            weights,
            schema,
            growth,
            answers,
            training,
        )

    def _training(
        self,
        outputs: tuple[tuple[str, tuple[tuple[int, int], ...]], ...],
        growth: Growth | None,
        resolver: Resolver,
        params: tuple[Param, ...],
    ) -> Training | None:
        """The section `train`."""
        drafts = resolver.drafts
        scored = growth.scored if growth else ()
        outputs += tuple((d.name, ((d.decision.type, d.decision.output),)) for d in scored)
        firsts = {name: pairs[0] for name, pairs in outputs if pairs}
        known = Outputs(
            {name: number for number, (name, _) in enumerate(outputs)},
            {name: tuple(drafts[t].outputs.values())[o] for name, (t, o) in firsts.items()},
            {name: Kinds().union(*(drafts[t].kinds for t, _ in pairs)) for name, pairs in outputs}
            | {d.name: d.kinds for d in scored},
            growth,
        )
        names = (*(param.name for param in params), *resolver.tables)
        inputs = {
            f"{draft.name}.{port.name}": (t, s)
            for t, draft in enumerate(drafts)
            for s, port in enumerate(draft.cell.inputs if draft.cell else ())
        }
        return read_training(self.section("train"), resolver, names, inputs, known, self.reach)

    def _floats(self, types: tuple[NodeType, ...], schema: Schema) -> None:
        """Whole numbers of vertices that come to be are not there when a mini-batch's floats are laid out."""
        for wanted in (i for t in types for i in t.inputs):
            for source in wanted.sources:
                if isinstance(source, FieldSource) and not schema.fields[source.field].size:
                    message = f"field '{source.field}' holds whole numbers, and this model grows"
                    hint = f"look them up: a table with dim 1, TABLE[{source.field}]"
                    note(message, wanted.where, hint)

    def _with_words(self, table: Table | None) -> Table | None:
        """A table whose words are known from elsewhere."""
        words = self.overrides.words.get(table.name) if table and not table.vocab else None
        if not table or not words:
            return table
        rows = {word: row for row, word in enumerate(words)}
        path = self.overrides.weights or self.path
        return replace(table, rows=len(words), vocab=Vocabulary(path, rows), unknown=0)

    def section(self, name: str) -> Keys | None:
        """A section that is a mapping."""
        return fields.mapping(self.top.get(name), name)

    def _data(self) -> DataSpec | None:
        overrides = self.overrides
        before = len(report())
        entries = DATA.entries(self.section("data"), "data", waived=("path",))
        node = entries.node
        if node is None:
            return None
        given = overrides.data or overrides.instances or overrides.head
        if not (given or node.get("path")):
            note("data has no 'path'", node.where, "path: FILE, or --data FILE")
        form, written = entries.word("format", "unknown format"), entries.text("path")
        batch, limit, seed, frequency = map(entries.integer, ("batch", "limit", "seed", "frequency"))
        tokens = self._tokens(entries.text("tokens"))
        beside = entries.word("beside", hint=f"one of: {', '.join(BESIDE)}")
        for option, owner in _OF_FORMATS.items():
            key = node.key(option)
            if key and form and form.text != owner:
                note(f"format {form.text} has no {option}", key.where, f"it belongs to format {owner}")
        for option in ("batch", "limit", "seed"):
            value, least = getattr(overrides, option), DATA.keys[option]["minimum"]
            if value is not None and not least <= value <= fields.MOST:
                hint = f"from {least} to {fields.MOST}"
                raise AbwError(f"{option} cannot be {value}", hint=hint, exit_code=2)
        if overrides.instances:
            path: Path | None = ARRAYS
            if form and form.text != overrides.instances.format:
                message = (
                    f"the model's data are of format {form.text}, the instances {overrides.instances.format}"
                )
                note(message, form.where)
        else:
            path = overrides.data or (self.reach.file(written, "the data") if written else None)
            if overrides.head and (path is None or not path.exists()) and form:
                path = self._head(form, overrides.head)
            if path:
                self._exists(path, written if not overrides.data else None)
        if len(report()) > before or form is None or path is None:
            return None
        return DataSpec(
            form.text,
            path,
            overrides.batch or batch or DATA.keys["batch"]["default"],
            overrides.limit or limit,
            (seed or 0) if overrides.seed is None else overrides.seed,
            frequency or 0,
            tokens,
            beside.text if beside and not overrides.instances else "",
            written.where if written else node.where,
        )

    def _head(self, form: Scalar, head: Callable[[], Path]) -> Path | None:
        """What a pipe begins with, in place of data that are not there."""
        if form.text == "lattice":
            hint = "data of this format say first how many there are: let path name some, or --data a file"
            note("lattices from a pipe need data of the spec's own, too", form.where, hint)
            return None
        return head()

    def _tokens(self, written: Scalar | None) -> str:
        """The regular expression of format words, '' where there is none."""
        if written is None:
            return ""
        try:
            pattern = re.compile(written.text)
        except (re.error, OverflowError, RecursionError) as error:
            hint = r"Python's syntax: '\w+|[^\w\s]'"
            note(f"tokens is no regular expression: {error}", written.where, hint)
            return ""
        if pattern.groups:
            note("tokens has groups", written.where, "write (?:…) for (…): a whole match is a token")
        elif pattern.fullmatch(""):
            hint = "+ instead of *: a token has at least one character"
            note("tokens finds what is empty", written.where, hint)
        return written.text

    def _exists(self, path: Path, written: Scalar | None) -> None:
        where = written.where if written else None
        try:
            if found := why_no_file(path):
                pipes = "" if found == "a folder" else "`abw run --data` alone reads what comes but once"
                note(f"the data {path} is {found}, not a file", where, pipes)
            elif not path.exists():
                note(f"missing data file {path}", where, missing_file(path))
        except (OSError, ValueError) as error:
            note(f"cannot read {str(path)!r}: {error}", where)

    def _schema(self, data: DataSpec | None) -> Schema | None:
        """The format's schema; a data section with other mistakes still says which."""
        if data is None:
            return SCHEMAS.get(text_at(self.top, "data", "format"))
        if self.overrides.instances:
            return self.overrides.instances
        if data.format in SCHEMAS:
            return SCHEMAS[data.format]
        if self.schema_of is None:
            note("the schema of json data is not known here", data.span)
            return None
        try:
            return self.schema_of(data.path, data.beside)
        except SpecError as error:
            report().extend(error.problems)
        except AbwError as error:
            report().extend([Problem(error.message, data.span, error.hint)])
        return None

    def _unused(self, resolver: Resolver, cells: Cells) -> None:
        """Tables, parameters, cells and links that nothing names; not asked while mistakes may hide a use."""
        if len(report()):
            return
        for name, (key, _) in cells.own.items():
            if name not in cells.used:
                note(f"cell '{name}' is never used", key.where, "leave it out")
        for part, what in (("tables", "table"), ("params", "parameter")):
            for key, _ in pairs(self.top, part):
                if key.text not in resolver.used:
                    note(f"{what} '{key.text}' is never used", key.where, "leave it out")
        derived = resolver.schema.derived
        followed = resolver.followed | {made.of for made in derived.values()}
        for key, _ in () if self.top.get("grow") else pairs(self.top, "links"):
            if key.text not in followed:
                note(f"link '{key.text}' is never used", key.where, "leave it out")
