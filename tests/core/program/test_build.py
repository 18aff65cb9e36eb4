"""Nets of objects: without a file, and with types that are added while programs run."""

# ruff: noqa: ANN401 (cells and values are of any kind)

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import abw
from abw.core.base.errors import AbwError
from abw.core.ir.cell import Cell, Op, Param, Port
from abw.core.program.load import add_type
from abw.core.program.net import Net
from abw.core.program.session import ProgramGranularity
from tests.core.program.cells import small

DOUBLE = Cell("double", (Port("x", (6,)),), (), (Op("add", (0, 0), (6,)),), (("y", 1),))
BIASED = Cell(
    "biased", (Port("x", (6,)),), (Param("b", (6,)),), (Op("add", (0, 1), (6,)), Op("tanh", (2,), (6,))),
    (("y", 3),),
)  # fmt: skip
PAIR = Cell(
    "pair", (Port("x", (6,)),), (), (Op("tanh", (0,), (6,)), Op("neg", (0,), (6,))), (("a", 1), ("b", 2))
)


def test_a_library_needs_no_file() -> None:
    made = abw.library(
        "reader", dims={"hidden": 6}, tables={"words": (9, "hidden")}, params={"start": "hidden"}
    )
    net = abw.cells(made, seed=3)

    def step(x: Any = "hidden", h: Any = "hidden", *, W: Any = ("hidden", "hidden")) -> Any:
        return abw.tanh(W @ x + h)

    net.cell(step)

    def read(words: list[int]) -> Any:
        h = net.start
        for word in words:
            h = net.step(net.words[word], h)
        return h

    found = net.run(read, [[1, 2], [3]])
    words, start, weights = (net.params[name] for name in ("words", "start", "step.W"))
    first = np.tanh(weights @ words[3] + start)
    np.testing.assert_allclose(found[1], first, rtol=1e-5)
    assert [found[0].shape, words.shape] == [(6,), (9, 6)]


def test_mistakes_in_libraries_without_a_file(tmp_path: Path) -> None:
    with pytest.raises(AbwError, match="no dim 'hiden'"):
        abw.library("reader", dims={"hidden": 6}, tables={"words": (9, "hiden")})
    with pytest.raises(AbwError, match="'run' cannot be called"):
        abw.library("reader", tables={"run": (9, 4)})
    with pytest.raises(AbwError, match="0 is not a size"):
        abw.library("reader", tables={"words": (0, 4)})
    with pytest.raises(AbwError, match="a table and a parameter"):
        abw.library("reader", tables={"a": (2, 4)}, params={"a": 4})
    with pytest.raises(AbwError, match="already has its sizes"):
        abw.cells(abw.library("reader"), dims={"hidden": 3})


class Growing:
    """A program that adds types to its net, some after a decision."""

    def __init__(self, net: Net) -> None:
        self.net, self.known = net, dict[str, int]()

    def call(self, cell: Cell, x: Any, params: tuple[int | Param, ...] = ()) -> Any:
        if cell.name not in self.known:
            self.known[cell.name] = add_type(self.net, cell, params)
        return getattr(self.net, cell.name)(x)

    def __call__(self, words: list[int]) -> Any:
        net = self.net
        h = net.step(net.words[words[0]], net.start)
        h = self.call(DOUBLE, h)
        seen = [net.score(h, h).argmax()]
        for word in words[1:]:
            h = self.call(BIASED, net.step(net.words[word], h), (Param("biased.b", (6,)),))
            seen.append(net.score(h, h).argmax())
        a, b = self.call(PAIR, h)
        return seen, net.step(a, b)


@pytest.mark.parametrize(("granularity", "executor"), [("cell", "cpu"), ("op", "cpu"), ("cell", "blas")])
def test_types_may_be_added_while_programs_run(
    tmp_path: Path, granularity: ProgramGranularity, executor: str
) -> None:
    words = [[1, 2, 3], [4], [2, 2, 5, 1]]
    net, known = small(tmp_path, executor=executor), small(tmp_path, executor=executor)
    for cell, params in ((DOUBLE, ()), (BIASED, (Param("biased.b", (6,)),)), (PAIR, ())):
        add_type(known, cell, params)
    wanted = Growing(known)
    wanted.known = dict.fromkeys(("double", "biased", "pair"), 0)
    first = known.run(wanted, words, granularity=granularity)
    for _ in range(2):
        found = net.run(Growing(net) if _ == 0 else wanted_by(net), words, granularity=granularity)
        assert [seen for seen, _ in found] == [seen for seen, _ in first]
        assert [value.tobytes() for _, value in found] == [value.tobytes() for _, value in first]
    eager = small(tmp_path, executor=executor)
    again = eager.run(Growing(eager), words, eager=True)
    np.testing.assert_allclose([v for _, v in again], [v for _, v in first], atol=1e-5)


def wanted_by(net: Net) -> Growing:
    """The program where all types are there."""
    made = Growing(net)
    made.known = dict.fromkeys(("double", "biased", "pair"), 0)
    return made


def test_a_type_of_more_outputs_needs_room(tmp_path: Path) -> None:
    net = abw.cells(abw.library("none", tables={"words": (4, 6)}))
    add_type(net, DOUBLE)
    with pytest.raises(AbwError, match="a type of 2 outputs is added while programs run, with room for 1"):
        net.run(lambda _: add_type(net, PAIR), [0])
    add_type(net, PAIR)
    ((a, b),) = net.run(lambda _: net.pair(net.words[1]), [0])
    np.testing.assert_allclose((a, b), (np.tanh(net.params["words"][1]), -net.params["words"][1]), rtol=1e-5)
