"""Instances given as Python objects: as many instances as objects, or an error."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from abw.core.api import LoadedModel, load
from tests.core.data.oracle import check_arrays
from tests.fuzz.target import ROOT, target

SPECS = {
    "trees": "treelstm-2type.yaml",
    "lattice": "lattice.yaml",
    "tags": "bilstm-chars.yaml",
    "pairs": "lstm-nmt.yaml",
    "words": "words.yaml",
    "plans": "plans/bao.yaml",
    "json": "dag.yaml",
}
OBJECTS: Mapping[str, list[Any]] = {
    "trees": [(3, (2, "It"), (4, (3, "works"), (2, "well"))), (2, "Fine"), "(2 (1 a) (1 b))"],
    "lattice": [[[], [(0, 5)], [(1, 6), (0, 9)]], [[]], "1\n0\n0"],
    "tags": [["It", "works"], [("It", "O"), ("works", "V")], "a|O b|O"],
    "pairs": [
        ("<s> a </s>", "<s> b c </s>"),
        (["<s>", "a", "</s>"], "<s> b </s>"),
        "<s> a </s> ||| <s> b </s>",
    ],
    "words": ["It works.", "Yes!"],
    "plans": [
        {"Plan": {"Node Type": "Hash Join", "Total Cost": 1.5, "Plans": [{"Node Type": "Seq Scan"}]}},
        '[{"Plan": {"Node Type": "Result"}}]',
        {"name": "SEQ_SCAN", "children": [], "extra_info": {"Table": "t"}},
    ],
    "json": [
        {"id": "x", "vertices": [{"kind": "leaf", "name": "x"}], "links": {}},
        '{"vertices": [{"kind": "leaf", "name": "x"}]}',
    ],
}


class _Odd:
    """An object whose text is a control character."""

    def __repr__(self) -> str:
        return "\x1b[2J"


ODD: Sequence[Callable[[], Any]] = (
    *(lambda: None, lambda: "", lambda: " ", lambda: "\n", lambda: "\n\n", lambda: "\x00", lambda: "\x1b[2J"),
    *(
        lambda: "a\nb",
        lambda: "\ud800",
        lambda: "\u2028",
        lambda: "\ufeff",
        lambda: "é",
        lambda: "(",
        lambda: "|||",
    ),
    *(lambda: -1, lambda: 0, lambda: 2**31, lambda: 10**400, lambda: 0.5, lambda: math.nan, lambda: True),
    *(lambda: (), lambda: [], dict, set, lambda: b"bytes", lambda: range(3), lambda: iter([1]), object, _Odd),
    *(
        lambda: np.arange(3),
        lambda: np.int64(1),
        lambda: np.str_("a"),
        lambda: _nested(3000),
        lambda: "x" * 10_000,
    ),
)


def _nested(depth: int) -> Any:  # noqa: ANN401
    found: Any = (1, "a")
    for _ in range(depth):
        found = (1, found)
    return found


def _changed(rng: Random, value: Any) -> Any:  # noqa: ANN401
    """The object with one part of it replaced, dropped or doubled."""
    inner = len(value) > 0 if isinstance(value, list | tuple | dict) else False
    if not inner or rng.random() < 0.2:
        if isinstance(value, str) and value and rng.random() < 0.5:
            at = rng.randrange(len(value))
            return (
                value[:at]
                + rng.choice(("", "\n", " ", "\x00", "\x1b", "(", "|", "\r", "\x85"))
                + value[at + 1 :]
            )
        return rng.choice(ODD)()
    if isinstance(value, dict):
        key = rng.choice(list(value))
        rest = {k: v for k, v in value.items() if k != key}
        return {rng.choice((key, key, key, 5, "")): _changed(rng, value[key]), **rest}
    items = list(value)
    at = rng.randrange(len(items))
    items[at : at + 1] = rng.choice(([], [items[at]] * 2, *[[_changed(rng, items[at])]] * 6))
    return type(value)(items)


def _damage(rng: Random, cases: Sequence[list[Any]], number: int) -> list[Any]:
    given = list(rng.choice(cases))
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(given))
        given[at] = _changed(rng, given[at])
    return given


@cache
def _model(format: str) -> LoadedModel:
    return load(ROOT / "specs" / SPECS[format], executor="reference")


def _register(format: str) -> None:
    @target(f"objects-{format}", lambda: [OBJECTS[format]], damage=_damage, share=0.3)
    def attempt(case: list[Any], folder: Path) -> None:
        found = _model(format).read(case)
        check_arrays(found)
        assert len(found) == len(case), f"{len(found)} instances of {len(case)} objects"


for _format in SPECS:
    _register(_format)
