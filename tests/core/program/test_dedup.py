"""Equal calls of programs once: the same bits, beside a dictionary."""

# ruff: noqa: ANN401 (values of nets)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import abw
from abw.core.base.errors import AbwError
from abw.core.graph.equal.consing import Consing, DedupMode, Patience
from abw.core.ir.cell import Cell, Op, Port
from abw.core.ir.model import library_of, with_reduction, with_type
from abw.core.policy.check import check_schedule
from abw.core.program.engines.engine import not_finite
from abw.core.program.net import Net
from abw.core.program.network import library_network
from abw.core.program.recording.segments import Segment, joined
from abw.core.program.session import ProgramGranularity, Ran
from tests.core.program.cells import LIBRARY, small

# An operation on a list of values: its name, and which values (modulo how many there are).
Step = tuple[str, list[int]]
STEPS = ("sum", "attend", "look", "step", "join", "two", "input", "decide")
# What leads every program through the same first steps.
COMMON: list[Step] = [("step", [0, 1]), ("decide", [-1]), ("sum", [-1, 0]), ("sum", [0, -2])]


def program(net: Any, steps: Sequence[Step]) -> tuple[list[int], Any]:
    """Run steps on a growing list of values."""
    values, seen = [net.start, net.words[3], net.words[3], net.zeros("hidden")], []
    for kind, which in steps:
        some = [values[i % len(values)] for i in which]
        if kind == "sum":
            values.append(net.sum(some))
        elif kind == "attend":
            values.append(net.attend(some[0], some[::-1], some, heads=2))
        elif kind == "look":
            values += net.attend([*some, values[-1]], some, some[::-1], heads=2)
        elif kind in ("step", "join"):
            values.append(getattr(net, kind)(some[0], some[-1]))
        elif kind == "two":
            values += net.two(some[0])
        elif kind == "input":
            values.append(net.input([[0.0, -0.0][which[0] % 2], which[0] % 3, 0, 0, 0, 1]))
        else:
            seen.append(net.score(some[0], values[-1]).argmax())
    return seen, values[-1]


def drawn_steps() -> st.SearchStrategy[list[Step]]:
    which = st.lists(st.integers(-5, 5), min_size=1, max_size=3)
    return st.lists(st.tuples(st.sampled_from(STEPS), which), max_size=8).map(lambda steps: [*COMMON, *steps])


def net_of(folder: Path, executor: str, dedup: DedupMode, threads: int = 1) -> Net:
    path = folder / f"{dedup}.yaml"
    path.write_text(LIBRARY)
    made: Net = abw.cells(path, executor=executor, dedup=dedup, threads=threads)
    return made


def bits(found: Sequence[tuple[list[int], Any]]) -> list[Any]:
    return [(seen, value.tobytes()) for seen, value in found]


def stands_by_dictionary(segment: Segment, net: Net) -> list[int]:
    """The node that stands for each: the first whose type and operands, renamed, have been met."""
    network, known = net._session.engine(None).network, dict[Any, int]()
    stands: list[int] = []
    for v in range(len(segment)):
        read = segment.operand[segment.operand_ptr[v] : segment.operand_ptr[v + 1]].tolist()
        width = network.width
        renamed = [r if r < 0 else stands[r // width] * width + r % width for r in read]
        if network.types[segment.type[v]].reduction == "sum" and len(renamed) == 2:
            renamed.sort()
        stands.append(known.setdefault((int(segment.type[v]), *renamed), v))
    return stands


@pytest.fixture(scope="module")
def nets(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Net]:
    modes: tuple[DedupMode, ...] = ("off", "on")
    return {
        (executor, mode): net_of(tmp_path_factory.mktemp("net"), executor, mode)
        for executor in ("cpu", "blas")
        for mode in modes
    }


@pytest.mark.parametrize(("executor", "granularity"), [("cpu", "cell"), ("blas", "cell"), ("cpu", "op")])
@settings(max_examples=12)
@given(st.lists(drawn_steps(), min_size=1, max_size=4), st.booleans())
def test_equal_calls_are_one_with_the_same_results(
    nets: dict[tuple[str, str], Net],
    executor: str,
    granularity: ProgramGranularity,
    drawn: list[list[Step]],
    twice: bool,
) -> None:
    some = drawn * (1 + twice)
    off, on = nets[executor, "off"], nets[executor, "on"]
    wanted = off.run(lambda steps: program(off, steps), some, granularity=granularity)
    found = on.run(lambda steps: program(on, steps), some, granularity=granularity)
    if executor == "cpu":
        assert bits(found) == bits(wanted)
    for (decided, value), (right, expected) in zip(found, wanted, strict=True):
        assert decided == right
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)  # BLAS's bits depend on batches
    engine = on._session.engine(None)
    segment = joined(engine.segments)
    stands = stands_by_dictionary(segment, on)
    assert engine.equal.same[: engine.nodes].tolist() == stands
    graph = engine.whole
    assert len(graph) == len({*stands}) == engine.nodes - engine.equal_nodes < engine.nodes
    assert graph.distinct is not None
    order = np.argsort(segment.type, kind="stable")
    assert graph.vertex[graph.distinct.nodes(graph.type_ptr)].tolist() == np.array(stands)[order].tolist()
    assert graph.distinct.instance.tolist() == segment.instance[order].tolist()
    check_schedule(graph.dag, Ran([], 0, engine).schedule(graph))


def test_large_pieces_are_planned_amid_those_of_the_tape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[Step] = [
        *COMMON, ("two", [-1]), ("decide", [1]), ("attend", [1, 2, 3]), ("look", [3, -1, 2]),
        ("step", [-1, -2]), ("decide", [2]),
    ]  # fmt: skip
    some = [steps, steps[:-1], [*steps, *steps], COMMON]
    off = net_of(tmp_path, "cpu", "off")
    wanted = off.run(lambda steps: program(off, steps), some)
    for limit in (1, 250, 600):
        monkeypatch.setattr("abw.core.exec.cpu.partition.APART_FLOPS", limit)
        net = net_of(tmp_path, "cpu", "on", threads=2)
        for _ in range(2):
            assert bits(net.run(partial(program, net), some)) == bits(wanted)
            engine = net._session.engine(None)
            stands = stands_by_dictionary(joined(engine.segments), net)
            assert engine.equal.same[: engine.nodes].tolist() == stands
            check_schedule(engine.whole.dag, Ran([], 0, engine).schedule(engine.whole))


def test_lists_that_many_queries_share_stand_once(tmp_path: Path) -> None:
    """Keys and table grow between two decisions, and the lists are found again."""
    off, on = net_of(tmp_path, "cpu", "off"), net_of(tmp_path, "cpu", "on")

    def read(net: Any, words: list[int]) -> tuple[list[int], Any]:
        some = [net.step(net.words[word], net.start) for word in words]
        for _ in range(2):
            seen = net.attend(some, some, some)
            if net.score(seen[0], seen[-1]).argmax() == 0:
                some = seen
        return [], net.sum([*net.attend(some[::2], some, some), net.attend(some[0], some, some)])

    random = np.random.default_rng(0)
    sentences = [random.integers(0, 20, n).tolist() for n in random.integers(2, 40, 40)] * 2
    found, wanted = (net.run(partial(read, net), sentences, batch=80) for net in (on, off))
    assert bits(found) == bits(wanted)
    engine = on._session.engine(None)
    assert engine.equal.same[: engine.nodes].tolist() == stands_by_dictionary(joined(engine.segments), on)
    assert 2 * engine.equal_nodes > engine.nodes > 2000
    assert len(engine.equal.keys) < sum(len(words) ** 2 for words in sentences)


def test_types_may_be_added_meanwhile(tmp_path: Path) -> None:
    off, on = net_of(tmp_path, "cpu", "off"), net_of(tmp_path, "cpu", "on")
    first: list[Step] = [("step", [0, 1]), ("decide", [-1])]
    some = [[*first, ("sum", [-1, 0]), ("decide", [-1]), ("step", [-1, 0])]] * 2 + [first]
    wanted = off.run(partial(program, off), some)
    assert bits(on.run(partial(program, on), some)) == bits(wanted)
    assert on._session.engine(None).equal_nodes > 0


def test_auto_looks_behind_a_run_of_many_nodes(tmp_path: Path) -> None:
    """The first run is not looked at: its first piece is small. Table and keys grow with the second one."""
    off, auto = net_of(tmp_path, "cpu", "off"), net_of(tmp_path, "cpu", "auto")

    def read(net: Any, words: list[int]) -> tuple[list[int], Any]:
        h, seen = net.start, []
        for number, word in enumerate(words):
            h = net.step(net.words[word], h)
            if number % 50 == 0:
                seen.append(net.score(h, h).argmax())
        return seen, h

    random = np.random.default_rng(0)
    first = random.integers(0, 20, 300).tolist()
    sentences = [first, [*first[:250], *random.integers(0, 20, 150).tolist()], first, [1, 2], *[first] * 12]
    wanted = off.run(partial(read, off), sentences)
    engine = auto._session.engine(None)
    for looked in (False, True, False):  # cells are too small for it to pay
        assert bits(auto.run(partial(read, auto), sentences)) == bits(wanted)
        assert (engine.equal_nodes > engine.nodes // 2) == looked
        if looked:
            graph = engine.whole
            check_schedule(graph.dag, Ran([], 0, engine).schedule(graph))
    graph = engine.whole
    check_schedule(graph.dag, Ran([], 0, engine).schedule(graph))


def test_where_nothing_repeats_auto_looks_less_often(tmp_path: Path) -> None:
    net = net_of(tmp_path, "cpu", "auto")

    def chain(number: int) -> Any:
        h = net.input(np.random.default_rng(number).random(6))
        for _ in range(400):
            h = net.step(h, net.start)
        return h

    looked = []
    for run in range(9):
        net.run(chain, range(3 * run, 3 * run + 3))
        looked.append(net._session.engine(None)._looking)
    assert looked == [True, False, True, False, False, True, False, False, False]


def test_auto_leaves_calls_apart_that_threads_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def chain(net: Any, words: list[int]) -> Any:
        h = net.start
        for word in words:
            h = net.step(net.words[word], h)
        return h

    sentences = [[word % 5 for word in range(300)]] * 4
    for limit, looks in ((1, [False, False]), (10**9, [False, True])):
        monkeypatch.setattr("abw.core.exec.cpu.partition.APART_FLOPS", limit)
        net, found = net_of(tmp_path, "cpu", "auto", threads=2), []
        for _ in range(2):
            net.run(partial(chain, net), sentences)
            found.append(net._session.engine(None)._looking)
        assert found == looks


def test_patience() -> None:
    patience = Patience("auto")
    assert patience.begin()
    patience.learn(paid=False)
    assert [patience.begin() for _ in range(2)] == [False, True]
    patience.learn(paid=True)
    assert patience.begin() and not Patience("off").begin() and Patience("on").begin()


@settings(max_examples=25)
@given(st.data())
def test_the_table_beside_a_dictionary(data: st.DataObject) -> None:
    """Nodes of one network, appended in pieces of any size."""
    add = Cell("add", (Port("x", (3,)), Port("y", (3,))), (), (Op("add", (0, 1), (3,)),), (("z", 2),))
    library = with_reduction(with_type(library_of("tiny", outputs=2), add, ()), "sum", [(3,)])
    net = library_network(library)
    consing, known, stands = Consing(net), dict[Any, int](), list[int]()
    consing.begin()
    for _ in range(data.draw(st.integers(1, 4))):
        types, ptr, operand = list[int](), [0], list[int]()
        for _ in range(data.draw(st.integers(0, 12))):
            v = len(stands)
            types.append(t := data.draw(st.integers(0, 1)))
            size = 2 if t == 0 else data.draw(st.integers(2, 3))
            read = [data.draw(st.integers(-4, v * net.width - 1)) for _ in range(size)]
            operand += read
            ptr.append(len(operand))
            key = [r if r < 0 else stands[r // net.width] * net.width + r % net.width for r in read]
            if t == 1 and size == 2:
                key.sort()
            stands.append(known.setdefault((t, *key), v))
        first = len(stands) - len(types)
        consing.number(first, *(np.array(part, np.int32) for part in (types, ptr, operand)))
    assert consing.same[: len(stands)].tolist() == stands


def test_what_is_not_finite_is_of_all_its_instances(tmp_path: Path) -> None:
    net = net_of(tmp_path, "cpu", "on")
    params = net._session.engine().params
    table = params.tables[0].copy()
    table[3], table[3, 0] = 0.0, np.inf
    net._session.engine().update(replace(params, tables=(table, *params.tables[1:])))
    net.run(lambda word: net.gate(net.two(net.words[word])[1]), [1, 3, 2, 3, 3])
    found = not_finite(net._session.engine())
    assert found is not None and (found.type, found.output, found.instances) == ("two", "b", (1, 3, 4))


def test_granularity_graph_has_no_equal_calls(tmp_path: Path) -> None:
    net = net_of(tmp_path, "cpu", "on")
    with pytest.raises(AbwError, match="granularity graph cannot leave out equal calls"):
        net.run(lambda _: net.step(net.start, net.start), [0], granularity="graph")
    net = small(tmp_path)
    net._session.how = replace(net._session.how, dedup="auto")
    assert len(net.run(lambda _: net.step(net.start, net.start), [0], granularity="graph")) == 1
    with pytest.raises(AbwError, match="dedup cannot be 'maybe'"):
        abw.cells(tmp_path / "small.yaml", dedup="maybe")
