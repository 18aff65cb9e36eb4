"""Numbers that instances bring along: the same as rows of tables, in pieces and in double precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import abw
from abw import AbwError, Net
from abw.core.exec.registry import get_executor
from abw.core.plan.check import check_plan
from abw.core.policy.check import check_schedule
from tests.core.program.cells import small

# Whatever holds numbers.
Floats = Any
VECTORS = [np.random.default_rng(i).normal(size=6) for i in range(7)]


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Net:
    return small(tmp_path_factory.mktemp("given"))


def read(net: Net, numbers: Floats) -> Any:  # noqa: ANN401 (what a program returns)
    """Reads what the instance brings along in several pieces, made a value once and as it is."""
    value, h = net.input(numbers), net.start
    for _ in range(3):
        h = net.step(value, h)
        if net.gate(h).above(0):
            h = net.step([0.5] * 6, h)
        h = net.step(numbers, h)
    return h, value, net.input(range(6)), net.gate(value).above(0)


def test_numbers_are_values(net: Net) -> None:
    found = net.run(lambda numbers: read(net, numbers), VECTORS)
    exact = net.run(lambda numbers: read(net, numbers), VECTORS, eager=True)
    for numbers, (h, value, counted, _), (wide, *_) in zip(VECTORS, found, exact, strict=True):
        np.testing.assert_array_equal(value, numbers.astype(np.float32))
        np.testing.assert_array_equal(counted, np.arange(6))
        np.testing.assert_allclose(h, wide, atol=1e-5)
    for batch in (1, 3, 64):  # the last finds the plans of the first, with other numbers in between
        net.run(lambda numbers: read(net, numbers), [2 * numbers for numbers in VECTORS], batch=batch)
        again = net.run(lambda numbers: read(net, numbers), VECTORS, batch=batch)
        assert [a[0].tobytes() for a in again] == [f[0].tobytes() for f in found]
    assert net.verify(lambda numbers: read(net, numbers), VECTORS).ok


def test_a_row_brought_along_is_the_table_s(net: Net) -> None:
    rows = net.params["words"]

    def table(word: int) -> Any:  # noqa: ANN401
        return net.step(net.words[word], net.step(net.words[word + 1], net.start))

    def brought(word: int) -> Any:  # noqa: ANN401
        return net.step(rows[word], net.step(rows[word + 1].tolist(), net.start))

    for a, b in zip(net.run(table, range(9)), net.run(brought, range(9)), strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", ["reference", "blas"])
def test_every_executor_takes_them(net: Net, tmp_path: Path, name: str) -> None:
    other = small(tmp_path, get_executor(name))
    found = other.run(lambda numbers: read(other, numbers), VECTORS[:3])
    wanted = net.run(lambda numbers: read(net, numbers), VECTORS[:3])
    for (h, *_, above), (right, *_, same) in zip(found, wanted, strict=True):
        np.testing.assert_allclose(h, right, atol=1e-5)
        assert above is same


def test_their_plans_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = small(tmp_path, executor="blas")
    held = []
    engine = net._session.engine()
    run = engine._executor.run

    def noting(plan: Any) -> Any:  # noqa: ANN401
        held.append(plan)
        return run(plan)

    monkeypatch.setattr(engine._executor, "run", noting)
    for _ in range(2):
        net.run(lambda numbers: read(net, numbers), VECTORS)
    assert len(held) == 2 * len(engine.segments) > 4
    for plan in held:
        check_plan(plan.graph, plan)
        check_schedule(plan.graph.dag, plan.schedule)
    assert sum(map(len, held[-1].graph.given)) > 0
    graph = net.trace(lambda numbers: net.step(numbers, net.input(numbers)), VECTORS[0])
    assert [rows.shape for rows in graph.given if len(rows)] == [(1, 6)]  # equal rows are one


def test_plans_made_before_serve_programs_after(tmp_path: Path) -> None:
    net = small(tmp_path)
    before = net.run(lambda word: net.step(net.words[word], net.start), [1, 2])
    net.run(lambda word: net.step(net.params["words"][word], net.start), [1, 2])
    after = net.run(lambda word: net.step(net.words[word], net.start), [1, 2])
    assert [a.tobytes() for a in after] == [b.tobytes() for b in before]


MISTAKES = {
    "a size": ([1, 2], AbwError, r"input 'x' of step wants \[6\], this is \[2\]"),
    "a number": (3, AbwError, "this is one number"),
    "a text": ("six", TypeError, "needs a value or numbers, not str"),
    "nothing": (None, TypeError, "needs a value or numbers, not NoneType"),
    "truth": ([True] * 6, TypeError, "needs a value or numbers, not list"),
    "ragged": ([[1, 2], [3]], TypeError, "not list"),
    "not a number": ([1, 2, 3, 4, 5, float("nan")], AbwError, r"is given nan at \[5\]"),
    "too large": ([1e300] * 6, AbwError, r"is given 1e\+300 at \[0\]"),
}


@pytest.mark.parametrize("what", MISTAKES)
@pytest.mark.parametrize("eager", [False, True])
def test_wrong_numbers_name_instance_and_cell(net: Net, what: str, eager: bool) -> None:
    numbers, kind, message = MISTAKES[what]

    def program(given: Floats) -> Any:  # noqa: ANN401
        return net.step(given, net.start)

    with pytest.raises(kind, match=message) as caught:
        net.run(program, [VECTORS[0], numbers], eager=eager)
    assert caught.value.__notes__[0] == "in instance 1 of program"


def test_numbers_belong_to_their_run(net: Net) -> None:
    kept: list[Any] = []
    net.run(lambda numbers: kept.append(net.input(numbers)), VECTORS)
    for program in (lambda _: net.step(kept[0], net.start), lambda _: kept[0].value(), lambda _: kept[0]):
        for eager in (False, True):
            with pytest.raises(AbwError, match="earlier run"):
                net.run(program, [0], eager=eager)
    found = net.run(lambda n: kept[0] if n else n, [0, 1], errors="return")
    assert found[0] == 0 and isinstance(found[1], AbwError)
    with pytest.raises(AbwError, match="called only in a running program"):
        net.input([0.0] * 6)
    with pytest.raises(AbwError, match=r"net.input wants \[6\]"):
        net.run(lambda _: net.input([1, 2]), [0])


def test_one_number_is_a_vector_of_one(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(
        "library: one\ncells:\n  double:\n    inputs: {x: 1}\n    equations: y = x + x\n    outputs: {y: y}\n"
    )
    one = abw.cells(tmp_path / "one.yaml", threads=1)
    assert [float(y[0]) for y in one.run(lambda x: one.double(x), [1, 2.5, np.float32(3), [4]])] == [
        2,
        5,
        6,
        8,
    ]
