"""Sums, means, maxima and attention over any number of values in programs."""

# ruff: noqa: ANN401 (values of nets, and of the oracle's)

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import abw
from abw.core.base.errors import AbwError
from abw.core.exec.interface import TooLargeError
from abw.core.program.net import Net
from abw.core.program.recording.segments import Piece, joined, lists_of
from abw.core.program.session import ProgramGranularity
from tests.core.program.cells import LIBRARY, Number, Plain, small

# An operation on a list of values: its name, and which values (modulo how many there are).
Step = tuple[str, list[int]]
SIMPLE = ("sum", "mean", "max", "var", "std")
STEPS = (*SIMPLE, "attend", "look", "weigh", "softmax", "step", "decide")


class Oracle(Plain):
    """`LIBRARY` in NumPy, with the reductions."""

    def sum(self, values: Sequence[Number]) -> Number:
        return Number(np.stack([v.array for v in values]).sum(axis=0))

    def mean(self, values: Sequence[Number]) -> Number:
        return Number(np.stack([v.array for v in values]).mean(axis=0))

    def max(self, values: Sequence[Number]) -> Number:
        return Number(np.stack([v.array for v in values]).max(axis=0))

    def var(self, values: Sequence[Number]) -> Number:
        return Number(np.stack([v.array for v in values]).var(axis=0))

    def std(self, values: Sequence[Number]) -> Number:
        return Number(np.stack([v.array for v in values]).std(axis=0))

    def softmax(self, values: Sequence[Number]) -> list[Number]:
        powers = np.exp(np.stack([v.array for v in values]))
        return [*map(Number, powers / powers.sum(axis=0))]

    def attend(self, query: Any, keys: Sequence[Number], values: Sequence[Number], heads: int = 1) -> Any:
        if isinstance(query, list):
            return [self.attend(each, keys, values, heads) for each in query]
        parts = []
        for head in range(heads):

            def part(value: Number, head: int = head) -> Any:
                size = len(value.array) // heads
                return value.array[head * size : (head + 1) * size]

            if query is None:
                scores = np.array([key.array[0] for key in keys])
            else:
                size = len(part(query))
                scores = np.array([part(key) @ part(query) / np.sqrt(size) for key in keys])
            shares = np.exp(scores - scores.max())
            parts.append(sum(s * part(v) for s, v in zip(shares / shares.sum(), values, strict=True)))
        return Number(np.concatenate(parts))


def program(net: Any, steps: Sequence[Step]) -> tuple[list[int], Any]:
    """Run steps on a growing list of values."""
    values, seen = [net.start, net.words[3], net.zeros("hidden"), net.input([0.5, -1, 2, 0.25, 0, 1])], []
    for kind, which in steps:
        some = [values[i % len(values)] for i in which]
        if kind in SIMPLE:
            values.append(getattr(net, kind)(some))
        elif kind == "attend":
            values.append(net.attend(some[0], some[::-1], some, heads=2))
        elif kind == "look":
            values += net.attend(values[-2:], some[::-1], some, heads=2)
        elif kind == "weigh":
            values.append(net.attend(None, [net.gate(value) for value in some], some))
        elif kind == "softmax":
            values += net.softmax(some)
        elif kind == "step":
            values.append(net.step(some[0], some[-1]))
        else:
            seen.append(net.score(some[0], values[-1]).argmax())
    return seen, values[-1]


def drawn_steps() -> st.SearchStrategy[list[Step]]:
    which = st.lists(st.integers(0, 30), min_size=1, max_size=5)
    return st.lists(st.tuples(st.sampled_from(STEPS), which), max_size=8)


@pytest.fixture(scope="module")
def nets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Net]:
    return {name: small(tmp_path_factory.mktemp(name), executor=name) for name in ("cpu", "blas")}


@pytest.mark.parametrize("kind", ["cpu", "blas", "op"])
@settings(max_examples=12)
@given(st.lists(drawn_steps(), min_size=1, max_size=4))
def test_reductions_are_what_numpy_says(nets: dict[str, Net], kind: str, drawn: list[list[Step]]) -> None:
    net = nets.get(kind, nets["cpu"])
    granularity: ProgramGranularity = "op" if kind == "op" else "cell"
    found = net.run(lambda steps: program(net, steps), drawn, granularity=granularity)
    oracle = Oracle(net.params)
    for steps, (seen, value) in zip(drawn, found, strict=True):
        wanted_seen, wanted = program(oracle, steps)
        if seen == wanted_seen:  # else two scores were almost equal
            np.testing.assert_allclose(value, wanted.array, atol=2e-4)
    if kind == "cpu":
        alone = [net.run(lambda steps: program(net, steps), [steps])[0] for steps in drawn]
        assert [v.tobytes() for _, v in alone] == [v.tobytes() for _, v in found]
        assert net.verify(lambda steps: program(net, steps), drawn).ok


def one_by_one(net: Net) -> Any:
    """The net, where each query of a list is a call of its own."""

    class Apart:
        def attend(self, query: Any, *lists: Any, **options: Any) -> Any:
            queries = query if isinstance(query, list) else [query]
            found = [net.attend(each, *lists, **options) for each in queries]
            return found if isinstance(query, list) else found[0]

        def __getattr__(self, name: str) -> Any:
            return getattr(net, name)

    return Apart()


@settings(max_examples=25)
@given(st.lists(drawn_steps(), min_size=1, max_size=4), st.booleans())
def test_queries_of_one_call_are_the_nodes_of_a_call_each(
    nets: dict[str, Net], drawn: list[list[Step]], more: bool
) -> None:
    net = nets["cpu"]
    steps = [[*one, ("look", [*range(9)]), ("look", [-1, 0]), *one] for one in drawn] if more else drawn
    found = net.run(lambda one: program(net, one), steps)
    engine = net._session.engine()
    segment, batches = joined(engine.segments), engine.tape.batches
    apart = net.run(lambda one: program(one_by_one(net), one), steps)
    assert [(seen, v.tobytes()) for seen, v in apart] == [(seen, v.tobytes()) for seen, v in found]
    other = joined(engine.segments)
    for name in ("type", "instance", "operand_ptr", "operand"):
        one, two = getattr(segment, name), getattr(other, name)
        # inputs are numbered on from run to run
        np.testing.assert_array_equal(np.maximum(one, -1), np.maximum(two, -1))
    assert engine.tape.batches == batches


def test_a_long_list_attends_to_itself(tmp_path: Path) -> None:
    """More rows are read than there are words."""
    net = small(tmp_path)

    def each(length: int) -> Any:
        values = [net.step(net.words[i % 20], net.start) for i in range(length)]
        return net.attend(values, values, values)

    found = net.run(each, [150, 1, 3])
    assert [*map(len, found)] == [150, 1, 3]
    for some, wide in zip(found, net.run(each, [150, 1, 3], eager=True), strict=True):
        np.testing.assert_allclose(some, wide, atol=1e-4)


def test_queries_over_a_list_too_long_for_a_graph_are_refused(tmp_path: Path) -> None:
    net, n = small(tmp_path), 27_000
    net.run(lambda _: net.attend([net.start] * 2, [net.start] * 2, [net.start] * 2), [0])
    engine = net._session.engine()
    number = len(engine.cells.types) - 1
    words = np.zeros(2 + 3 * n, np.int64)
    words[:2] = number, lists_of(n, n)
    with pytest.raises(TooLargeError, match="32-bit"):
        engine.segment(Piece(words, n))


def test_attention_takes_lists_tuples_and_numbers(tmp_path: Path) -> None:
    net = small(tmp_path)

    def each(count: int) -> Any:
        some = [net.step(net.words[i % 20], net.start) for i in range(count)]
        numbers = [0.5, -1, 2, 0.25, 0, 1]
        return [
            net.attend(some[:2], some, some),
            net.attend(tuple(some[:2]), some, tuple(some)),
            net.attend(some[:2], iter(some), some),
            net.attend([some[0], numbers], some, [*some[:-1], numbers]),
            [net.attend(one, some, [*some[:-1], numbers]) for one in (some[0], numbers)],
        ]

    for found in net.run(each, [2, 5, 1500]):  # the last ones are more words than there was room for
        same = [[value.tobytes() for value in some] for some in found]
        assert same[0] == same[1] == same[2] != same[3] == same[4]
    with pytest.raises(AbwError, match="values of several shapes"):
        net.run(
            lambda _: net.attend(
                [net.start] * 2, [net.start, net.score(net.start, net.start)], [net.start] * 2
            ),
            [0],
        )


def many(net: Net, words: list[int]) -> Any:
    leaves = [net.step(net.words[word], net.start) for word in words]
    return net.step(net.sum(leaves), net.max(tuple(leaves))), net.mean(leaf for leaf in leaves)


def test_long_lists_and_short_ones_are_a_node_each(tmp_path: Path) -> None:
    words = [[1, 2, 3], [4], [5, 6, 7, 8, 9, 1, 2], [*range(20)] * 300]
    net = small(tmp_path)
    found = net.run(lambda some: many(net, some), words)
    for a, b in zip(found, net.run(lambda some: many(net, some), words, eager=True), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3)
    graph = net.trace(lambda some: many(net, some), words[0])
    assert dict(zip(graph.dag.types, graph.type_sizes.tolist(), strict=True))["sum(6)"] == 1


def test_the_graph_of_instances_of_equal_structure(tmp_path: Path) -> None:
    net = small(tmp_path)
    words = [[1, 2, 3], [4, 5], [6, 7, 8], [9, 1]]
    wanted = net.run(lambda some: many(net, some), words)
    found = net.run(lambda some: many(net, some), words, granularity="graph")
    assert [x.tobytes() for pair in found for x in pair] == [x.tobytes() for pair in wanted for x in pair]


def test_large_lists_in_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [[number % 20 for number in range(k)] for k in (300, 2, 77)]
    net = small(tmp_path)
    wanted = net.run(lambda some: many(net, some), words)
    monkeypatch.setattr("abw.core.exec.cpu.partition.APART_FLOPS", 1)
    other = small(tmp_path, threads=2)
    found = other.run(lambda some: many(other, some), words)
    assert [x.tobytes() for pair in found for x in pair] == [x.tobytes() for pair in wanted for x in pair]


def test_mistakes(tmp_path: Path) -> None:
    net = small(tmp_path)

    def refused(of: Callable[[], Any], message: str) -> None:
        with pytest.raises((AbwError, TypeError), match=message):
            net.run(lambda _: of(), [0])

    refused(lambda: net.sum([]), "sum of no values")
    refused(
        lambda: net.max([net.start, net.score(net.start, net.start)]),
        r"max of values of several shapes: \[6\], \[3\]",
    )
    refused(lambda: net.mean([net.start, "no"]), "mean needs a value or numbers, not str")
    refused(lambda: net.sum([net.start, [1.0]]), r"sum wants \[6\], this is \[1\]")
    refused(lambda: net.attend(net.start, [net.start], [net.start] * 2), "1 keys for 2 values")
    refused(lambda: net.attend(net.start, [net.start], [net.start], heads=4), "no 4 equal parts")
    refused(lambda: net.attend(None, [net.start] * 2, [net.start] * 2), r"keys of \[6\] for a query of \[1\]")
    with pytest.raises(AbwError, match="cells can be called only in a running program"):
        net.sum([net.start, net.start])
    other = small(tmp_path)
    refused(lambda: net.sum([net.start, other.start]), "a value of another net")
    assert net.run(lambda _: net.sum([net.start]) is net.start, [0]) == [True]


def test_a_cell_of_the_same_name_hides_a_reduction(tmp_path: Path) -> None:
    path = tmp_path / "named.yaml"
    path.write_text(LIBRARY.replace("types: {", "types: {sum: two, "))
    net = abw.cells(path)
    (found,) = net.run(lambda _: net.sum(net.start), [0])
    assert len(found) == 2


@pytest.mark.parametrize("executor", ["cpu", "blas"])
def test_nothing_recorded_wrongly_reaches_a_kernel(tmp_path: Path, executor: str) -> None:
    """Handles that were tampered with are refused, whatever runs them."""
    net = small(tmp_path, executor=executor)
    net.run(lambda _: net.step(net.start, net.start), [0])
    recorder, kind = net._session.recorder, net.start.ref & 0xFFFFF

    def forged(handle: Callable[[], int]) -> None:
        for where in range(3):
            refused(handle, where)

    def refused(handle: Callable[[], int], where: int) -> None:
        def program(_: int) -> Any:
            value: Any = type(net.start)()
            made = net.step(net.start, net.start)
            value.ref = handle()
            given = value if where == 0 else made
            if where < 2:
                return net.step(net.sum([given, value]), made)
            return net.attend([made, value], [made, made], [made, given])

        with pytest.raises(AbwError, match=r"another shape, or of a later call|of an earlier run"):
            net.run(program, [0])
        assert len(net.run(lambda _: net.start, [0])) == 1

    forged(lambda: recorder.next + 50 * recorder.step + kind)  # what comes later
    forged(lambda: recorder.next + kind)  # itself
    forged(lambda: int(net.score(net.start, net.start).ref))  # of another shape
    forged(lambda: (-(2**25) << 20) + kind)  # no constant at all
    forged(lambda: kind)  # of an earlier run
