"""Weights: a file's tensors brought to a model's parameters and tables, as its map says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError, Problem, Span, SpecError, did_you_mean
from abw.core.data.tensors import TRAINING, VOCABULARY, Stored, TensorFile, read_tensors
from abw.core.exec.params import Floats, Params, init_params
from abw.core.exec.proposal import Want, as_yaml, could_be, propose, written
from abw.core.ir.cell import Shape
from abw.core.ir.model import Library, Model, ParamSource, TableSource
from abw.core.ir.network import Network
from abw.core.ir.weights import Combined, Expr, Pick, Slice, Tensor, Value, Weights, Zeros, names_in

# What has parameters and tables.
Owner = Model | Library
State = Literal["ok", "missing", "misshapen"]


@dataclass(frozen=True, slots=True)
class Need:
    """A parameter or table that a model's weights must have.

    `owner` is its type, '' for what is the model's own; `users` are the types that use it. `value` is what
    the map says, None where the file's tensor of the same name is meant. `where` is the place to point at.
    """

    name: str
    shape: Shape
    owner: str
    users: tuple[str, ...]
    value: Value | None
    where: Span | None

    @property
    def expr(self) -> Expr:
        """The expression over the file's tensors that it is made of."""
        return self.value.expr if self.value else Tensor(self.name)

    @property
    def text(self) -> str:
        """What is asked of the file, as a spec would write it."""
        return self.value.text if self.value else self.name


@dataclass(frozen=True, slots=True)
class Fit:
    """What a file has for a need: its values (float32, of the need's shape), or what is wrong."""

    need: Need
    state: State
    values: Floats | None
    fault: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Matched:
    """A file's tensors matched with all needs of a model; `unused` are those that nothing asks for."""

    file: TensorFile
    fits: tuple[Fit, ...]
    unused: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trained:
    """A model's parameters and tables by name (float32), and the file they come from, without its tensors.

    `converted` counts the used tensors that the file holds in other types than float32.
    """

    values: Mapping[str, Floats]
    file: TensorFile
    converted: Mapping[str, int]


class _UnfitError(Exception):
    """Tensors that cannot be put together as the map says; the second argument is a hint."""


def needs(model: Owner) -> tuple[Need, ...]:
    """List all parameters and tables of a model: tables first, then parameters in their order."""
    users: dict[str, list[str]] = {}
    spans = {t.name: t.span for t in model.types}
    for t in model.types:
        read = {s.table for i in t.inputs for s in i.sources if isinstance(s, TableSource)}
        given = {s.number for i in t.inputs for s in i.sources if isinstance(s, ParamSource)}
        for name in (
            *(model.tables[n].name for n in read),
            *(model.params[n].name for n in {*given, *t.params}),
        ):
            users.setdefault(name, []).append(t.name)

    def need(name: str, shape: Shape, where: Span | None) -> Need:
        value = model.weights.map.get(name)
        owner, dot, _ = name.partition(".")
        place = value.where if value else model.weights.where or where or spans.get(owner)
        return Need(name, shape, owner if dot else "", tuple(users.get(name, ())), value, place)

    return (
        *(need(table.name, (table.rows, *table.shape), table.span) for table in model.tables),
        *(need(param.name, param.shape, None) for param in model.params),
    )


def match(model: Owner, file: TensorFile) -> Matched:
    """Match a file's tensors with the needs of a model. Cost: linear in the tensors.

    One that `abw train` wrote has them by their own names, whatever the model's map says of others.
    """
    ours = any(name.startswith(TRAINING) for name in file.tensors)
    fits = tuple(_fit(replace(n, value=None) if ours else n, file.tensors) for n in needs(model))
    used = {name for fit in fits for name in names_in(fit.need.expr)}
    kept = (VOCABULARY, TRAINING)
    unused = [
        name
        for name in file.tensors
        if name not in used and not name.startswith(kept) and not model.weights.ignores(name)
    ]
    return Matched(file, fits, tuple(unused))


def read_file(weights: Weights) -> TensorFile | None:
    """Read the file that a model names; None if it names none.

    Errors: as `read_tensors`, as a SpecError where the spec names the file.
    """
    if weights.file is None:
        return None
    try:
        return read_tensors(weights.file)
    except AbwError as error:
        if weights.named is None:
            raise
        raise SpecError([Problem(error.message, weights.named, error.hint)]) from None


def load_weights(model: Owner) -> Trained | None:
    """Load the weights that a model names, as float32; None if it names no file.

    Errors: SpecError with all that is missing, misshapen or left over at once; those of `read_file`.
    """
    file = read_file(model.weights)
    if file is None:
        return None
    matched = match(model, file)
    if problems := problems_of(matched, model):
        raise SpecError(problems)
    tensors = matched.file.tensors
    used = dict.fromkeys(name for fit in matched.fits for name in names_in(fit.need.expr))
    converted = Counter(tensors[name].dtype for name in used)
    del converted["float32"]
    values = {fit.need.name: fit.values for fit in matched.fits if fit.values is not None}
    # what was made of the tensors, not these themselves, is held from here on
    return Trained(values, replace(file, tensors={}), dict(converted))


def make_params(network: Network, trained: Trained | None, seed: int) -> Params:
    """A network's parameters and tables: the trained ones, or where there are none those of the seed."""
    if trained is None:
        return init_params(network, seed)
    return Params(
        tuple(trained.values[param.name] for param in network.params),
        tuple(trained.values[table.name] for table in network.tables),
    )


def problems_of(matched: Matched, model: Owner) -> list[Problem]:
    """All that is wrong, what is missing grouped by where the spec asks for it, with a map that would fit."""
    of_tables = {table.name for table in model.tables}
    unfit = [fit.need for fit in matched.fits if fit.state != "ok"]
    wants = [Want(need.name, need.shape, need.name in of_tables) for need in unfit]
    found = propose(wants, {name: matched.file.tensors[name] for name in matched.unused})
    tensors, path = matched.file.tensors, matched.file.path
    missing: dict[tuple[Span | None, str], list[Need]] = {}
    problems: list[Problem] = []
    for fit in matched.fits:
        if fit.state == "missing":
            need = fit.need
            missing.setdefault((need.where, "" if need.value else need.owner or need.name), []).append(need)
        elif fit.state == "misshapen":
            problems.append(Problem(f"{fit.need.name}: {fit.fault}", fit.need.where, fit.hint))
    for (where, _), group in missing.items():
        absent = list(dict.fromkeys(n for need in group for n in names_in(need.expr) if n not in tensors))
        if group[0].value:
            near = did_you_mean(absent[0], tuple(tensors))
            hint = near if near.startswith("did") else "`abw weights SPEC FILE` shows what the file has"
            message = f"{path} has no {_listed(absent)}"
        else:
            names = _listed([need.name for need in group])
            message = f"{path} has no tensor for {names}, and the map does not name one"
            example = f"{group[0].owner}: PREFIX.*" if group[0].owner else f"{group[0].name}: TENSOR"
            hint = f"weights: {{map: {{{example}}}}}; `abw weights SPEC FILE` shows what the file has"
            hint = "" if found else hint
        problems.append(Problem(message, where, hint))
    if matched.unused:
        message = f"{path} has {_listed(matched.unused)}, which the model does not use"
        used = {name for expr in found.values() for name in names_in(expr)}
        left = [
            name
            for name in matched.unused
            if name not in used and not any(could_be(want, name, tensors[name].shape) for want in wants)
        ]
        hint = f"map it, or leave it out: ignore: ['{left[0]}']" if left else ""
        problems.append(Problem(message, model.weights.where, hint))
    problems.sort(key=lambda p: (p.where.line, p.where.column) if p.where else (0, 0))
    if found:
        hint = "by shapes and names this map fits; compare it with the model before you take it:\n"
        hint += _section(matched, found, model.weights)
        problems[-1] = replace(problems[-1], hint="\n".join(filter(None, (problems[-1].hint, hint))))
    return problems


def _section(matched: Matched, found: Mapping[str, Expr], weights: Weights) -> str:
    """A section `weights`, ready to paste over the spec's: the map as far as it fits, and what was found."""
    values, notes = {}, {}
    for need, state in ((fit.need, fit.state) for fit in matched.fits):
        if expr := found.get(need.name):
            values[need.name] = written(expr)
            rows = matched.file.tensors[next(names_in(expr))].shape[:1]
            if isinstance(expr, Tensor) and rows != need.shape[:1]:
                notes[need.name] = f"with tables: {{{need.name}: {{rows: {rows[0]}}}}}"
        elif state == "ok" and need.value:
            values[need.name] = need.text
    section = as_yaml(values, notes)
    if weights.ignore:
        section += f"\n  ignore: {list(weights.ignore)}"
    if (named := weights.named) is None:  # the command line says the file
        return section
    written_file = named.text[named.column - 1 :][: named.length]
    return section.replace("weights:\n", f"weights:\n  file: {written_file}\n", 1)


def _listed(names: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def _fit(need: Need, tensors: Mapping[str, Stored]) -> Fit:
    absent = [name for name in names_in(need.expr) if name not in tensors]
    if absent:
        return Fit(need, "missing", None, f"no {_listed(absent)}")
    if isinstance(need.expr, Zeros):
        return Fit(need, "ok", np.zeros(need.shape, np.float32))
    try:
        values = _evaluate(need.expr, tensors)
    except _UnfitError as unfit:
        return Fit(need, "misshapen", None, *map(str, unfit.args))
    if values.shape != need.shape:
        fault = f"wants {list(need.shape)}, {need.text} is {list(values.shape)}"
        hint = "check the dims (--set DIM=SIZE), or take a part: TENSOR[0:hidden]"
        if values.shape == need.shape[::-1]:
            hint = f"transpose({need.text})"
        return Fit(need, "misshapen", None, fault, hint)
    with np.errstate(over="ignore"):  # what is beyond float32 becomes infinite, as in PyTorch
        return Fit(need, "ok", np.ascontiguousarray(values, np.float32))


def _evaluate(expr: Expr, tensors: Mapping[str, Stored]) -> NDArray[Any]:
    """The array that an expression is. Errors: _UnfitError."""
    match expr:
        case Tensor(name):
            stored = tensors[name]
            if not stored.dtype.startswith(("float", "bfloat")):
                raise _UnfitError(f"'{name}' holds {stored.dtype}, not floating-point numbers", "")
            return stored.read()
        case Slice(of, picks):
            return _sliced(_evaluate(of, tensors), picks, of)
        case Combined(how, parts):
            return _combined(how, [_evaluate(part, tensors) for part in parts])
        case _:
            raise TypeError(f"no array: {expr}")


def _sliced(array: NDArray[Any], picks: Sequence[Pick], of: Expr) -> NDArray[Any]:
    what = f"'{of.name}'" if isinstance(of, Tensor) else "what is cut"
    what = f"{what} is {list(array.shape)}"
    if len(picks) > array.ndim:
        raise _UnfitError(f"{what}: it has no axis {array.ndim}", "")
    for axis, (pick, size) in enumerate(zip(picks, array.shape, strict=False)):
        last = pick if isinstance(pick, int) else (pick[0] if pick[1] is None else pick[1] - 1)
        if last >= size:
            raise _UnfitError(f"{what}: axis {axis} has no {last}", "check the dims (--set DIM=SIZE)")
    return np.asarray(array[tuple(pick if isinstance(pick, int) else slice(*pick) for pick in picks)])


def _combined(how: str, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    shapes = " and ".join(str(list(part.shape)) for part in parts)
    if how == "transpose":
        if parts[0].ndim != 2:
            raise _UnfitError(f"only a matrix can be transposed, not {shapes}", "")
        return parts[0].T
    if how == "sum":
        if len({part.shape for part in parts}) > 1:
            raise _UnfitError(f"{shapes} cannot be added", "")
        return np.asarray(sum(part.astype(np.float64) for part in parts))
    if len({part.shape[1:] for part in parts}) > 1 or not all(part.ndim for part in parts):
        raise _UnfitError(f"{shapes} cannot stand one after the other", "")
    return np.concatenate(parts)
