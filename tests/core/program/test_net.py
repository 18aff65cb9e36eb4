"""Programs: their results, their mistakes, and how they end."""

from __future__ import annotations

import gc
import sys
from collections import defaultdict, deque
from collections.abc import Generator
from dataclasses import InitVar, dataclass, field, replace
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import abw
from abw import AbwError, Net
from abw.core.exec.registry import get_executor
from abw.core.program.running import fibers
from abw.core.script.tracebacks import user_error
from tests.core.program.cells import LIBRARY, Programs, small

# What programs return.
Found = Any
SENTENCES = [[i % 7, (3 * i) % 20, i, 5][: 1 + i % 4] for i in range(11)]


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Net:
    return small(tmp_path_factory.mktemp("net"))


def same(a: Found, b: Found) -> bool:
    return all(x[0] == y[0] and x[1].tobytes() == y[1].tobytes() for x, y in zip(a, b, strict=True))


def test_a_plain_function_runs_for_many_as_alone_to_the_bit(net: Net) -> None:
    parse = Programs(net).parse
    together = net.run(parse, SENTENCES)
    assert same(together, net.run(parse, SENTENCES, batch=1))
    assert same(together, net.run(parse, SENTENCES, batch=4))
    assert {len(actions) for actions, _ in together} == {1, 3, 5, 7}


def test_a_generator_function_does_the_same(net: Net) -> None:
    programs = Programs(net)
    assert same(net.run(programs.yielding, SENTENCES), net.run(programs.parse, SENTENCES))


def test_eager_computes_the_same_in_double_precision(net: Net) -> None:
    programs = Programs(net)
    together = net.run(programs.parse, SENTENCES)
    for program in (programs.parse, programs.yielding):
        for (actions, value), (wanted, exact) in zip(
            together, net.run(program, SENTENCES, eager=True), strict=True
        ):
            assert actions == wanted
            assert exact.dtype == np.float64
            np.testing.assert_allclose(value, exact, atol=1e-5)


@pytest.mark.parametrize("name", ["reference", "blas"])
def test_every_executor_runs_programs(net: Net, tmp_path: Path, name: str) -> None:
    other = small(tmp_path, get_executor(name))
    found, wanted = other.run(Programs(other).parse, SENTENCES), net.run(Programs(net).parse, SENTENCES)
    for (actions, value), (right, exact) in zip(found, wanted, strict=True):
        assert actions == right
        np.testing.assert_allclose(value, exact, atol=1e-5)


@pytest.mark.parametrize("policy", ["depth", "agenda", "sufficient"])
def test_policies_change_no_result(net: Net, tmp_path: Path, policy: str) -> None:
    other = small(tmp_path, policy=policy)
    assert same(other.run(Programs(other).parse, SENTENCES), net.run(Programs(net).parse, SENTENCES))


def test_threads_change_no_result(net: Net, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("abw.core.exec.cpu.partition.APART_FLOPS", 0)
    other = small(tmp_path, threads=2)
    assert same(other.run(Programs(other).parse, SENTENCES), net.run(Programs(net).parse, SENTENCES))


def test_verify_finds_nothing_wrong(net: Net) -> None:
    found = net.verify(Programs(net).parse, SENTENCES, batch=5)
    assert found.ok and found.instances == len(SENTENCES)
    assert found.decisions == sum(2 * len(s) - 1 for s in SENTENCES) and found.close == 0
    assert 0 < found.margin < 10 and 0 < found.difference < 1e-5


def test_verify_sees_a_wrong_value_and_wrong_decisions(tmp_path: Path) -> None:
    broken = small(tmp_path)
    assert broken.run(Programs(broken).parse, SENTENCES[:1])
    broken._session.engine().params.values[1][:] += 0.5  # the executor has packed the weights as they were
    found = broken.verify(Programs(broken).parse, SENTENCES)
    assert not found.ok and found.difference > 1e-3


def test_verify_sees_what_runs_otherwise_alone(net: Net) -> None:
    calls = count()

    def whimsical(word: int) -> Found:
        value = net.step(net.words[word], net.start)
        return net.step(value, value) if next(calls) % 3 == 0 else value

    assert net.verify(whimsical, [1, 2, 3, 4]).unlike_alone


def test_results_keep_their_form(net: Net) -> None:
    class Pair(NamedTuple):
        left: Any
        right: Any

    @dataclass
    class Held:
        value: Any
        name: str

    def program(word: int) -> Found:
        value = net.words[word]
        return {"pair": Pair(value, 3), "held": Held(net.step(value, value), "x"), "list": [value, [None]]}

    (found,) = net.run(program, [4])
    row = net.params["words"][4]
    assert isinstance(found["pair"], Pair) and found["pair"].right == 3
    np.testing.assert_array_equal(found["pair"].left, row)
    assert isinstance(found["held"], Held) and found["held"].name == "x"
    assert found["held"].value.shape == (6,)
    np.testing.assert_array_equal(found["list"][0], row)
    assert found["list"][1] == [None]


def test_results_are_looked_through(net: Net) -> None:
    @dataclass(frozen=True, slots=True)
    class Node:
        value: Any
        children: tuple[Any, ...] = ()
        count: int = field(init=False, default=3)

    @dataclass
    class Counted:
        times: InitVar[int]
        value: Any = None

        def __post_init__(self, times: int) -> None:
            self.value = [net.start] * times

    def program(word: int) -> Found:
        row = net.words[word]
        shared = [row]
        table = defaultdict(list, {"a": [row]})
        return Node(row, (Node(row), Node({"x": shared, "y": shared}))), Counted(2), table, deque([row, 1], 4)

    ((tree, counted, table, queue),) = net.run(program, [4])
    row = net.params["words"][4]
    for found in (
        tree.value,
        tree.children[0].value,
        tree.children[1].value["y"][0],
        table["a"][0],
        queue[0],
    ):
        np.testing.assert_array_equal(found, row)
    assert tree.count == 3 and [value.shape for value in counted.value] == [(6,), (6,)]
    assert table["other"] == [] and queue.maxlen == 4


class Holder:
    """No dataclass."""

    def __init__(self, value: object) -> None:
        self.value = value


async def waits(_: int) -> None:
    """No program."""


def endless(net: Net) -> list[Any]:
    held: list[Any] = [net.start]
    held.append(held)
    return held


UNRETURNED: dict[str, tuple[Any, str]] = {
    "a set": (lambda net: {net.start}, "the function returned a set of values"),
    "pairs in a set": (lambda net: frozenset({(1, net.start)}), "the function returned a set of values"),
    "keys": (lambda net: {net.start: 1}, "a dict with values as keys"),
    "a generator": (lambda net: (net.words[i] for i in range(3)), "a generator is returned"),
    "a map": (lambda net: map(net.words.get, range(3)), "a map is returned"),
    "a coroutine": (lambda net: waits(3), "asynchronous"),
    "an object": (lambda net: [Holder(net.start)], "a Holder is returned, whose 'value' is a value"),
    "a circle": (endless, "contains itself"),
}


@pytest.mark.parametrize("what", UNRETURNED)
def test_what_cannot_be_returned_is_refused(net: Net, what: str) -> None:
    make, message = UNRETURNED[what]
    for eager in (False, True):
        found = net.run(lambda i: make(net) if i else i, [0, 1], eager=eager, errors="return")
        assert found[0] == 0 and isinstance(found[1], AbwError) and message in str(found[1])
    found.clear()
    gc.collect()  # the coroutine, while its warning is ignored
    assert net.run(lambda _: ({1, "a"}, frozenset({2})), [0]) == [({1, "a"}, frozenset({2}))]


def test_what_is_no_program_is_refused(net: Net) -> None:
    class Asynchronous:
        async def __call__(self, _: int) -> None: ...

    for wrong in (waits, Asynchronous(), partial(waits)):
        for run in (net.run, net.verify):
            with pytest.raises(AbwError, match="asynchronous"):
                run(wrong, [0])
        with pytest.raises(AbwError, match="asynchronous"), net.batching() as batch:
            batch(wrong, 0)
        with pytest.raises(AbwError, match="asynchronous"):
            net.run(lambda _, wrong=wrong: abw.each(wrong, [0]), [0])
    with pytest.raises(AbwError, match="a function of one instance, not list"):
        net.run([1], len)


def test_what_a_program_raises_keeps_its_traceback_and_names_the_instance(net: Net) -> None:
    def program(number: int) -> int:
        net.step(net.words[number], net.start).value()
        if number % 3 == 2:
            raise KeyError(number)
        return number

    with pytest.raises(KeyError) as caught:
        net.run(program, range(7), batch=6)
    assert caught.traceback[-1].name == "program"
    notes = caught.value.__notes__
    assert notes[0] == "in instance 2 of program" and "instances 5 failed" in notes[1]
    found = net.run(program, range(7), batch=6, errors="return")
    assert [type(one) is KeyError for one in found] == [False, False, True, False, False, True, False]
    assert found[6] == 6


def test_iterators_stream(net: Net) -> None:
    taken = []

    def source() -> Generator[int, None, None]:
        for number in count():
            taken.append(number)
            yield number % 20

    found = list(islice(net.stream(lambda word: net.words[word], source(), batch=4), 6))
    assert len(found) == 6 and len(taken) == 8
    np.testing.assert_array_equal(found[5], net.params["words"][5])


def test_a_scope_runs_programs_and_bare_calls_together(net: Net) -> None:
    parse = Programs(net).parse
    with net.batching() as batch:
        futures = [batch(parse, sentence) for sentence in SENTENCES]
        bare = net.score(net.words[1], net.words[2])
        decided = net.score(net.words[3], net.start).argmax()
        with pytest.raises(AbwError, match="when the scope has ended"):
            futures[0].value()
    got = bare.value()
    assert same([future.value() for future in futures], net.run(parse, SENTENCES))
    assert decided in (0, 1, 2)
    with pytest.raises(AbwError, match="earlier run"):
        bare.value()
    (wanted,) = net.run(lambda _: net.score(net.words[1], net.words[2]), [0])
    np.testing.assert_array_equal(got, wanted)


def test_a_future_raises_what_its_program_raised(net: Net) -> None:
    def program(number: int) -> float:
        return 1 / number

    with net.batching() as batch:
        good, bad = batch(program, 1), batch(program, 0)
    assert good.value() == 1
    with pytest.raises(ZeroDivisionError):
        bad.value()


def test_branches_run_side_by_side(net: Net) -> None:
    rounds = []

    def tree(depth: int) -> Found:
        if depth == 0:
            return net.words[1]
        left, right = abw.each(tree, [depth - 1, depth - 1])
        value = net.join(left, right)
        return net.two(value)[1] if net.score(value, value).argmax() else value

    def yielding(depth: int) -> Generator[Any, Any, Any]:
        if depth == 0:
            return net.words[1]
        left, right = yield abw.each(yielding, [depth - 1, depth - 1])
        value = net.join(left, right)
        return net.two(value)[1] if (yield net.score(value, value).argmax()) else value

    depths = [0, 1, 3, 4]
    together = net.run(tree, depths)
    assert net._session.last is not None
    rounds.append(net._session.last.rounds)
    for a, b in zip(together, net.run(yielding, depths), strict=True):
        assert a.tobytes() == b.tobytes()
    assert rounds == [4]
    assert net.verify(tree, depths).ok and net.verify(yielding, depths).ok


def test_what_a_branch_raises_reaches_its_program(net: Net) -> None:
    ended = []

    def leaf(number: int) -> int:
        net.score(net.words[number], net.start).argmax()
        ended.append(number)
        return 1 // number

    def program(_: int) -> str:
        try:
            abw.each(leaf, [1, 0, 2])
        except ZeroDivisionError:
            return "caught"
        return "not"

    assert net.run(program, [0]) == ["caught"] and sorted(ended) == [0, 1, 2]
    assert net.run(lambda _: abw.each(leaf, []), [0]) == [[]]


def test_best_takes_the_best_of_several_values(net: Net) -> None:
    def program(word: int) -> Found:
        scores = [net.score(net.words[word + i], net.start) for i in range(3)]
        return abw.best(4, scores, [0.0, -0.5, 0.25]), scores

    for eager in (False, True):
        for picked, scores in net.run(program, [1, 2, 5], eager=eager):
            wide = np.stack(scores).astype(np.float64)
            logs = wide - np.log(np.exp(wide).sum(axis=1, keepdims=True)) + np.array([[0], [-0.5], [0.25]])
            order = np.argsort(-logs, axis=None, kind="stable")[:4]
            assert [(which, index) for which, index, _ in picked] == [divmod(int(at), 3) for at in order]
            np.testing.assert_allclose([score for _, _, score in picked], logs.ravel()[order])
    assert net.verify(program, [1, 2, 5]).ok


def test_draws_are_the_same_in_whatever_mini_batch(net: Net) -> None:
    def program(word: int) -> list[int]:
        value = net.words[word]
        drawn = [net.score(value, value).sample([True, False, True]) for _ in range(12)]
        drawn.append(net.score(value, value).sample())
        return drawn

    words = list(range(15))
    together = net.run(program, words)
    assert together == net.run(program, words, batch=4) == net.run(program, words, eager=True)
    assert {number for drawn in together for number in drawn[:12]} == {0, 2}
    assert len({tuple(drawn) for drawn in together}) > 10
    assert net.verify(program, words).ok


def test_above_asks_a_single_number(net: Net) -> None:
    def program(word: int) -> tuple[bool, Any]:
        gate = net.gate(net.words[word])
        return gate.above(0.1), gate

    for above, gate in net.run(program, range(20)):
        assert above is (bool(gate[0] > np.float32(0.1)))


MISTAKES = {
    "a shape": (lambda net: net.step(net.start, net.gate(net.start)), r"wants \[6\], this is \[1\]"),
    "no value": (lambda net: net.step(net.words[1], "h"), "needs a value or numbers, not str"),
    "too few": (lambda net: net.step(net.words[1]), "missing 1 required positional argument: 'h'"),
    "a row": (lambda net: net.words[20], "has no row 20"),
    "no row": (lambda net: net.words[1.5], "is a number or a word, not 1.5"),
    "zeros": (lambda net: net.zeros(7), r"no cell has a value of shape \[7\]"),
    "a dim": (lambda net: net.zeros("hiden"), "did you mean 'hidden'"),
    "a mask": (lambda net: net.score(net.start, net.start).argmax([True]), "1 are said to be allowed"),
    "nothing": (lambda net: net.score(net.start, net.start).argmax([False] * 3), "nothing is allowed"),
    "above": (lambda net: net.score(net.start, net.start).above(0), "above needs a value of one number"),
    "truth": (lambda net: 1 if net.gate(net.start) else 0, "neither true nor false"),
    "a number": (lambda net: float(net.gate(net.start)), "value.value()"),
    "an array": (lambda net: np.asarray(net.gate(net.start)), "value.value()"),
    "no scores": (lambda net: abw.best(2, []), "abw.best needs at least one value"),
    "none best": (lambda net: abw.best(0, [net.score(net.start, net.start)]), "cannot pick 0"),
    "half a best": (lambda net: abw.best(1.5, [net.score(net.start, net.start)]), "cannot pick 1.5"),
    "best of one": (lambda net: abw.best(1, net.score(net.start, net.start)), "takes a list of values"),
    "odd plus": (lambda net: abw.best(1, [net.score(net.start, net.start)], [np.nan]), "NaN or infinity"),
    "plus": (lambda net: abw.best(1, [net.score(net.start, net.start)], []), "plus has 0 numbers"),
    "a run inside": (lambda net: net.run(len, [[]]), "the net is already running"),
}  # fmt: skip


@pytest.mark.parametrize("what", MISTAKES)
@pytest.mark.parametrize("eager", [False, True])
def test_mistakes_are_told_where_they_are_made(net: Net, what: str, eager: bool) -> None:
    program: Any
    program, message = MISTAKES[what]
    with pytest.raises((AbwError, TypeError), match=message) as caught:
        net.run(lambda _: program(net), [0], eager=eager)
    assert "in instance 0" in caught.value.__notes__[0]
    assert any(
        Path(str(entry.path)) == Path(__file__) and entry.name == "<lambda>" for entry in caught.traceback
    )
    parse = Programs(net).parse  # and the net is as good as before
    assert net.run(parse, SENTENCES[:2])


def test_unknown_names_are_told(net: Net) -> None:
    with pytest.raises(AttributeError, match="no attribute 'scores'") as caught:
        _ = net.scores
    assert "did you mean 'score'" in user_error(caught.value, "it failed").hint


def test_cells_are_called_by_programs_alone(net: Net) -> None:
    with pytest.raises(AbwError, match="called only in a running program"):
        net.step(net.start, net.start)
    with pytest.raises(AbwError, match="asked for only in a running program"):
        net.start.argmax()
    with pytest.raises(AbwError, match="called only in a running program"):
        abw.each(len, [])


def test_values_of_earlier_runs_are_refused(net: Net) -> None:
    kept = []

    def keep(word: int) -> None:
        kept.append(net.step(net.words[word], net.start))

    net.run(keep, [1])
    with pytest.raises(AbwError, match="instance 1: input 'h' of step is a value of an earlier run"):
        net.run(lambda n: net.step(net.start, kept[0] if n else net.start), [0, 1])
    with pytest.raises(AbwError, match="earlier run"):
        net.run(lambda _: kept[0].value(), [0])
    with pytest.raises(AbwError, match="earlier run"):
        net.run(lambda _: kept[0], [0], eager=True)
    with pytest.raises(AbwError, match="input 'h' of step is a value of an earlier run"):
        net.run(lambda n: net.step(net.start, kept[0] if n else net.start), [0, 1], eager=True)


def test_values_of_other_nets_are_refused(net: Net, tmp_path: Path) -> None:
    other = small(tmp_path)
    with pytest.raises(AbwError, match="a value of another net"):
        net.run(lambda _: net.step(net.start, other.start), [0])


def test_scores_that_are_no_numbers_fail_their_instance_alone(tmp_path: Path) -> None:
    broken = small(tmp_path)
    params = broken._session.engine().params
    table = params.tables[0].copy()
    table[3] = np.nan
    broken._session.engine().update(replace(params, tables=(table, *params.tables[1:])))

    def program(word: int) -> int:
        return int(broken.score(broken.words[word], broken.start).argmax())

    found = broken.run(program, [1, 3, 5], errors="return")
    assert isinstance(found[1], AbwError) and "not a number" in str(found[1])
    assert isinstance(found[0], int) and isinstance(found[2], int)


def test_a_generator_function_must_yield_what_it_asks(net: Net) -> None:
    def forgets(_: int) -> Generator[Any, Any, Any]:
        if net.score(net.start, net.start).argmax() == 1:
            yield

    def leaves(_: int) -> Generator[Any, Any, Any]:
        net.score(net.start, net.start).argmax()
        return 3
        yield

    def yields(_: int) -> Generator[Any, Any, Any]:
        yield 5

    def twice(_: int) -> Generator[Any, Any, Any]:
        net.gate(net.start).above(0)
        yield net.gate(net.start).above(0)

    for eager in (False, True):
        for program in (forgets, leaves, yields, twice):
            with pytest.raises((AbwError, TypeError), match="yield"):
                net.run(program, [0], eager=eager)


def test_without_greenlet_what_asks_nothing_runs(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fibers, "greenlet", None)
    programs = Programs(net)
    assert net.run(lambda word: net.words[word], [3])[0].shape == (6,)
    assert net.run(programs.yielding, SENTENCES[:3])
    with pytest.raises(AbwError, match=r"\.\[programs\]"):
        net.run(programs.parse, SENTENCES[:3])


def test_an_interrupt_ends_the_run(net: Net) -> None:
    def program(number: int) -> None:
        net.gate(net.start).above(0)
        if number == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        net.run(program, range(3))
    assert net.run(Programs(net).parse, SENTENCES[:2])


def test_deep_recursion_works(net: Net) -> None:
    def chain(left: int) -> Found:
        if left == 0:
            return net.start
        value = net.step(net.words[left % 20], chain(left - 1))
        value.shape  # noqa: B018
        return value

    found = net.run(chain, [sys.getrecursionlimit() // 3])
    assert found[0].shape == (6,)
    with pytest.raises(RecursionError):
        net.run(chain, [10 * sys.getrecursionlimit()])


def test_values_show_themselves_where_they_are_known(net: Net) -> None:
    shown = []
    net.run(lambda _: shown.append(repr(net.gate(net.start))), [0])
    net.run(lambda _: shown.append(repr(net.gate(net.start))), [0], eager=True)
    assert shown[0] == "Value [1]" and shown[1].startswith("Value [1]: [")


def test_a_run_of_nothing_is_nothing(net: Net) -> None:
    assert net.run(Programs(net).parse, []) == []
    assert net.verify(Programs(net).parse, []).ok
    for batch in (0, 1.5, None, "8"):
        for run in (net.run, net.verify):
            with pytest.raises(AbwError, match=f"batch cannot be {batch!r}"):
                run(len, [[]], batch=batch)


def test_what_verify_meets_names_the_instance(net: Net) -> None:
    with pytest.raises(ZeroDivisionError) as error:
        net.verify(lambda item: 1 / item, [1, 2, 0])
    assert error.value.__notes__ == ["in instance 2 of <lambda>"]


def test_a_word_s_row_is_a_spec_s(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("one\ntwo\n<unk>\n")
    text = LIBRARY.replace("{dim: hidden, rows: 20}", "{dim: hidden, vocab: v.txt, unknown: <unk>}")
    (tmp_path / "lib.yaml").write_text(text)
    net = abw.cells(tmp_path / "lib.yaml", threads=1)
    found = net.run(lambda word: net.words[word], ["two", "three", 1, "two"])
    rows = net.params["words"]
    for got, row in zip(found, (1, 2, 1, 1), strict=True):
        np.testing.assert_array_equal(got, rows[row])
    assert set(net.words) == {"two", "three", 1}
    (tmp_path / "lib.yaml").write_text(text.replace(", unknown: <unk>", ""))
    strict = abw.cells(tmp_path / "lib.yaml", threads=1)
    with pytest.raises(AbwError, match="'three' is not a word of table 'words'"):
        strict.run(lambda word: strict.words[word], ["three"])
