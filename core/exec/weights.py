"""Weights: a file's tensors brought to a model's parameters and tables, as its map says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from abw.core.data.tensors import Stored, TensorFile, read_tensors
from abw.core.errors import AbwError, Problem, Span, SpecError, did_you_mean
from abw.core.exec.params import Floats, Params, init_params
from abw.core.graph.network import Network
from abw.core.spec.cell import Shape
from abw.core.spec.model import Model, ParamSource, TableSource
from abw.core.spec.weights import Combined, Expr, Slice, Tensor, Value, Weights, Zeros, names_in

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
        """What it is made of."""
        return self.value.expr if self.value else Tensor(self.name)

    @property
    def text(self) -> str:
        """The same as it is written."""
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
    """A model's parameters and tables by name (float32), and the file they come from.

    `converted` counts the used tensors that the file holds in other types than float32.
    """

    values: Mapping[str, Floats]
    file: TensorFile
    converted: Mapping[str, int]


class _UnfitError(Exception):
    """Tensors that cannot be put together as the map says; the second argument is a hint."""


def needs(model: Model) -> tuple[Need, ...]:
    """All parameters and tables of a model: its tables first, then its parameters in their order."""
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


def match(model: Model, file: TensorFile) -> Matched:
    """What a file has for each need of a model. Cost: that of the tensors."""
    fits = tuple(_fit(need, file.tensors) for need in needs(model))
    used = {name for fit in fits for name in names_in(fit.need.expr)}
    unused = [name for name in file.tensors if name not in used and not model.weights.ignores(name)]
    return Matched(file, fits, tuple(unused))


def read_file(weights: Weights) -> TensorFile | None:
    """The file that a model names, None where it names none.

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


def load_weights(model: Model) -> Trained | None:
    """The weights that a model names, as float32; None where it names no file.

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
    return Trained(values, matched.file, dict(converted))


def make_params(network: Network, trained: Trained | None, seed: int) -> Params:
    """A network's parameters and tables: the trained ones, or where there are none those of the seed."""
    if trained is None:
        return init_params(network, seed)
    return Params(
        tuple(trained.values[param.name] for param in network.params),
        tuple(trained.values[table.name] for table in network.tables),
    )


def problems_of(matched: Matched, model: Model) -> list[Problem]:
    """All that is wrong, what is missing grouped by where the spec asks for it."""
    tensors, path = matched.file.tensors, matched.file.path
    missing: dict[tuple[Span | None, str], list[Need]] = {}
    found: list[Problem] = []
    for fit in matched.fits:
        if fit.state == "missing":
            need = fit.need
            missing.setdefault((need.where, "" if need.value else need.owner or need.name), []).append(need)
        elif fit.state == "misshapen":
            found.append(Problem(f"{fit.need.name}: {fit.fault}", fit.need.where, fit.hint))
    for (where, _), group in missing.items():
        absent = list(dict.fromkeys(n for need in group for n in names_in(need.expr) if n not in tensors))
        if group[0].value:
            near = did_you_mean(absent[0], tuple(tensors))
            hint = near if near.startswith("did") else "`abw weights SPEC FILE` shows what the file has"
            message = f"{path} has no {_listed(absent)}"
        else:
            message = (
                f"{path} has nothing for {_listed([need.name for need in group])}, and the map says nothing"
            )
            example = f"{group[0].owner}: PREFIX.*" if group[0].owner else f"{group[0].name}: TENSOR"
            hint = f"weights: {{map: {{{example}}}}}; `abw weights SPEC FILE` shows what the file has"
        found.append(Problem(message, where, hint))
    if matched.unused:
        message = f"{path} has {_listed(matched.unused)}, which nothing uses"
        hint = f"map it, or say that it may be left: ignore: ['{matched.unused[0]}']"
        found.append(Problem(message, model.weights.where, hint))
    return sorted(found, key=lambda p: (p.where.line, p.where.column) if p.where else (0, 0))


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
    """A value's array. Errors: _UnfitError."""
    match expr:
        case Tensor(name):
            stored = tensors[name]
            if stored.values.dtype.kind != "f":
                raise _UnfitError(f"'{name}' holds {stored.dtype}, not floating-point numbers", "")
            return stored.values
        case Slice(of, picks):
            return _slice(_evaluate(of, tensors), picks, of)
        case Combined(how, parts):
            return _combine(how, [_evaluate(part, tensors) for part in parts])
        case _:
            raise TypeError(f"no array: {expr}")


def _slice(array: NDArray[Any], picks: Sequence[Any], of: Expr) -> NDArray[Any]:
    what = f"'{of.name}'" if isinstance(of, Tensor) else "what is cut"
    if len(picks) > array.ndim:
        raise _UnfitError(f"{what} is {list(array.shape)}: it has no axis {array.ndim}", "")
    index: list[int | slice] = []
    for axis, (pick, size) in enumerate(zip(picks, array.shape, strict=False)):
        last = pick if isinstance(pick, int) else (pick[0] if pick[1] is None else pick[1] - 1)
        if last >= size:
            message = f"{what} is {list(array.shape)}: axis {axis} has no {last}"
            raise _UnfitError(message, "check the dims (--set DIM=SIZE)")
        index.append(pick if isinstance(pick, int) else slice(*pick))
    return np.asarray(array[tuple(index)])


def _combine(how: str, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    shapes = " and ".join(str(list(part.shape)) for part in parts)
    if how == "transpose":
        if parts[0].ndim != 2:
            raise _UnfitError(f"only a matrix can be transposed, not {shapes}", "")
        return parts[0].T
    if how == "sum":
        if len({part.shape for part in parts}) > 1:
            raise _UnfitError(f"{shapes} cannot be added", "")
        return np.asarray(sum(part.astype(np.float64) for part in parts))
    if len({part.shape[1:] for part in parts}) > 1 or any(part.ndim == 0 for part in parts):
        raise _UnfitError(f"{shapes} cannot stand one after the other", "")
    return np.concatenate(parts)
