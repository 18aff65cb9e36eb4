"""A map of weights proposed: which tensor of a file could be which parameter, by shapes and names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

from abw.core.data.tensors import Stored
from abw.core.ir.cell import Shape
from abw.core.ir.weights import Combined, Expr, Tensor, names_in

_PLAIN = re.compile(r"[^\W\d][\w./-]*")
_EMBEDDING = re.compile(r"emb|wte|lookup", re.IGNORECASE)
_INPUT, _STATE = re.compile(r"ih|[_.](x|in)\b"), re.compile(r"hh|[_.]h\b")
# Names with less in common than this say nothing.
_ALIKE = 0.5


@dataclass(frozen=True, slots=True)
class Want:
    """A parameter `TYPE.NAME` or `NAME`, or a table, that nothing in a file is mapped to."""

    name: str
    shape: Shape
    table: bool


def propose(wants: Collection[Want], tensors: Mapping[str, Stored]) -> dict[str, Expr]:
    """By the names of what is wanted, what of the file's tensors it could be, as a map has it.

    A tensor fits by its shape, or as its transpose; a table by its columns, if the tensor's name is that of
    an embedding. What fits one alone goes first, then the most similar names; of equals none is proposed.
    Cost: some 50 us for each pair of equal shape.
    """
    pairs = {
        (want.name, name): _likeness(want, name)
        for want in wants
        for name, stored in tensors.items()
        if stored.dtype.startswith(("float", "bfloat")) and could_be(want, name, stored.shape)
    }
    shapes = {want.name: want.shape for want in wants}
    found: dict[str, Expr] = {}
    while pairs:
        best = max(pairs.values())
        top = _alone(pairs) or [pair for pair, alike in pairs.items() if alike == best > 0]
        if not top:
            break
        for want, name in _alone(top):
            turned = tensors[name].shape != shapes[want] == tensors[name].shape[::-1]
            found[want] = Combined("transpose", (Tensor(name),)) if turned else Tensor(name)
        done, taken = {want for want, _ in top}, {name for want, name in top if want in found}
        pairs = {(w, n): alike for (w, n), alike in pairs.items() if w not in done and n not in taken}
    return found


def written(expr: Expr) -> str:
    """What is proposed as a spec writes it."""
    (name,) = names_in(expr)
    return name if isinstance(expr, Tensor) else f"transpose({name})"


def as_yaml(values: Mapping[str, str], notes: Mapping[str, str]) -> str:
    """A section `weights` with this map: a line a table, parameter or type, behind which `notes` stand."""
    owners: dict[str, dict[str, str]] = {}
    for name, value in values.items():
        owner, dot, own = name.rpartition(".")
        owners.setdefault(owner if dot else name, {})[own if dot else ""] = _quoted(value)
    lines = ["weights:", "  map:"]
    for owner, given in owners.items():
        whole = given.get("") or f"{{{', '.join(f'{name}: {value}' for name, value in given.items())}}}"
        lines.append(f"    {owner}: {whole}{f'  # {notes[owner]}' if owner in notes else ''}")
    return "\n".join(lines)


def could_be(want: Want, name: str, shape: Shape) -> bool:
    """Whether a tensor of this name and shape could be what is wanted."""
    if want.table and want.shape != shape:
        named = _EMBEDDING.search(name) or _alike(want.name, name.rpartition(".")[0]) > 0
        return bool(named) and len(shape) > 1 and shape[1:] == want.shape[1:]
    return shape == want.shape or (len(shape) == 2 and not want.table and shape[::-1] == want.shape)


def _alone(pairs: Collection[tuple[str, str]]) -> list[tuple[str, str]]:
    """The pairs neither half of which is in another."""
    wants, names = (Counter(side) for side in zip(*pairs, strict=True))
    return [(want, name) for want, name in pairs if wants[want] == names[name] == 1]


def _likeness(want: Want, tensor: str) -> float:
    """How much two names have in common: whose it is, what it is, and the numbers in them."""
    owner, _, own = want.name.rpartition(".")
    before, _, last = tensor.rpartition(".")
    if want.table:
        return 2.0 * bool(_EMBEDDING.search(tensor)) + _alike(want.name, before or last)
    alike = 2 * _alike(owner, before) + SequenceMatcher(None, own.lower(), last.lower()).ratio()
    alike += 0.5 * (own[:1].lower() == last[:1].lower())
    alike += 0.25 * bool((_STATE if own[:1] in "Uu" or "hh" in own else _INPUT).search(f"{before}.{last}"))
    return alike + 0.5 * (re.findall(r"\d+", want.name) == re.findall(r"\d+", tensor))


def _alike(a: str, b: str) -> float:
    """How similar two names are; 0 for what has little in common."""
    ratio = max((SequenceMatcher(None, a, part).ratio() for part in (b, *b.split("."))), default=0.0)
    return ratio if a and ratio >= _ALIKE else 0.0


def _quoted(value: str) -> str:
    return value if _PLAIN.fullmatch(value) else "'" + value.replace("'", "''") + "'"
