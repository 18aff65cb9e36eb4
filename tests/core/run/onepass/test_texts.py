"""A call as one pass has the bits of the ordinary way, or leaves the call to that."""

from __future__ import annotations

import copy
import random
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abw.core.api import LoadedModel, load
from abw.core.base.errors import AbwError
from abw.core.run.onepass import state as at
from abw.core.run.onepass import workspace
from abw.core.run.onepass.onepass import Pass, Passes
from abw.core.run.onepass.rules import rule_of
from abw.core.run.parallel import PartRunner
from abw.core.spec.load import Overrides
from abw.core.store.ragged import Outputs
from abw.core.tools.inspect import inspect
from tests.conftest import ROOT
from tests.core.run.onepass.generated import compare, ordinary, same

# Those whose texts the pass reads.
SPECS = [
    "attention-nmt", "bidag", "bilstm", "dag", "fig1", "fig10", "gat", "ggnn", "lattice", "lattice-gru",
    "lstm-nmt", "mvrnn", "ner", "rgcn", "rings", "set-transformer", "sst", "torch-bilstm", "torch-childsum",
    "torch-gru", "torch-lstm", "torch-treelstm", "tree-transformer", "treegru", "treegru-nary", "treelstm",
    "treelstm-2type", "treelstm-attend", "treelstm-nary", "uneven", "words",
    "plans/bao", "plans/qppnet", "plans/treelstm-cost", "plans/zero-shot",
]  # fmt: skip
POLICIES = (
    "depth", "phases", "agenda", "agenda-static", "critical", "critical-reversed", "fsm", "auto",
    "sufficient", "sufficient-reversed", "share", "share-free", "weight", "weight-free",
    "weight-free-reversed", "critical-free",
)  # fmt: skip


@cache
def model(name: str, policy: str = "critical", **options: object) -> LoadedModel:
    """A shipped model, with its passes."""
    spec = ROOT / "specs" / f"{name}.yaml"
    made = load(spec, dims={"hidden": 8}, threads=1, policy=policy, **options)  # type: ignore[arg-type]
    made._passes.make(made._ready())
    return made


@cache
def texts(name: str) -> tuple[str, ...]:
    """The first instances of a shipped model's data."""
    spec = model(name).spec.data
    lines = [line for line in spec.path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if spec.format != "lattice":
        return tuple(lines[:6])
    found: list[str] = []
    begin = 1
    while begin < len(lines) and len(found) < 6:
        end = begin + int(lines[begin]) + 2
        found.append("\n".join(lines[begin:end]))
        begin = end
    return tuple(found)


def the_pass(made: LoadedModel) -> Pass:
    found = made._passes.made
    assert found is not None
    return found


def passed(made: LoadedModel, instances: Sequence[object]) -> Outputs:
    """The outputs by the pass alone."""
    found = the_pass(made).objects(list(instances))
    assert found is not None
    return found


@pytest.mark.parametrize("name", SPECS)
def test_shipped_models_have_the_same_bits(name: str) -> None:
    made, some = model(name), list(texts(name))
    same(passed(made, some), ordinary(made, some))
    for text in some[:3]:
        same(passed(made, [text]), ordinary(made, [text]))


@pytest.mark.parametrize("name", [*SPECS, "bilstm-chars"])
def test_bound_instances_have_the_same_bits(name: str) -> None:
    made = model(name)
    some = made.read(made.spec.data.path)
    count = len(some)
    windows = [(0, min(4, count)), (count // 2, min(count, count // 2 + 2)), (count - 1, count)]
    with patch.object(PartRunner, "_planned", side_effect=AssertionError("the ordinary way")):
        found = list(made.columns(some, windows=windows))
    with patch.object(Passes, "of", return_value=None):
        expected = list(made.columns(some, windows=windows))
    for (window, columns), (other, others) in zip(found, expected, strict=True):
        assert window == other
        for mine, theirs in zip(columns, others, strict=True):
            for field in ("values", "counts", "vertex"):
                assert getattr(mine, field).tobytes() == getattr(theirs, field).tobytes()
                assert getattr(mine, field).dtype == getattr(theirs, field).dtype
            assert (mine.fields, mine.lost) == (theirs.fields, theirs.lost)


def test_streams_take_the_pass(tmp_path: Path) -> None:
    made = model("treelstm")
    (tmp_path / "t.txt").write_text("\n".join([*texts("treelstm"), "(1 a"]))
    with patch.object(PartRunner, "_planned", side_effect=AssertionError("the ordinary way")):
        found = list(made.stream(tmp_path / "t.txt", errors="return"))
    with patch.object(Passes, "of", return_value=None):
        expected = list(made.stream(tmp_path / "t.txt", errors="return"))
    for mine, other in zip(found, expected, strict=True):
        same(mine, other)
        assert mine.errors.keys() == other.errors.keys()
    assert sum(len(part.errors) for part in found) == 1


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", ["lattice", "treelstm-2type", "bilstm"])
def test_rules_give_the_schedules_of_their_policies(name: str, policy: str) -> None:
    made = model(name, policy, dedup="off")
    rule = rule_of(made._ready(), made._networks.program.edges.order)
    if made._passes.made is None:  # phases of types without an order
        assert rule is None and policy == "phases" and name != "set-transformer"
        return
    some = list(texts(name))
    same(passed(made, some), ordinary(made, some))
    space, expected = the_pass(made)._space, made.schedule(made.graph(some))
    words, batches = space.words, int(space.words[at.BATCHES])
    arrays = (at.BATCH_TYPE, batches), (at.BATCH_PTR, batches + 1), (at.BATCH_NODES, int(words[at.NODES]))
    found = [space._lies(int(words[word]), (size,), np.int32) for word, size in arrays]
    for mine, other in zip(found, (expected.type, expected.ptr, expected.nodes), strict=True):
        assert mine.tolist() == other.tolist()


def test_a_call_takes_the_pass_from_the_second_on() -> None:
    made = load("treelstm", dims={"hidden": 8}, threads=1, policy="depth")
    some = list(texts("treelstm"))
    first = made(some)
    assert made._passes.made is None
    with patch.object(LoadedModel, "columns", side_effect=AssertionError("the ordinary way")):
        same(made(some), first)


@pytest.mark.parametrize("seed", range(6))
def test_generated_models_have_the_same_bits(tmp_path: Path, seed: int) -> None:
    """`python -m tests.core.run.onepass.generated` compares many."""
    compare(random.Random(seed), tmp_path, calls=3)


def test_labels_and_the_most_probable_ones_have_the_same_bits(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "specs", tmp_path, dirs_exist_ok=True)
    text = (tmp_path / "treelstm.yaml").read_text()
    for form in ("label", "label, top: 3", "probabilities", "label, names: [a, b, c, d, e]"):
        (tmp_path / "m.yaml").write_text(
            text.replace("outputs: {classes: output.y}", f"outputs: {{c: {{of: output.y, as: {form}}}}}")
        )
        made = load(tmp_path / "m.yaml", dims={"hidden": 8}, threads=1, policy="depth")
        made._passes.make(made._ready())
        some = list(texts("treelstm"))
        same(passed(made, some), ordinary(made, some))


word = st.text("ab(é", min_size=1, max_size=9).map(lambda w: w.replace("(", "[")) | st.just("known")
leaf = st.tuples(st.integers(0, 4), word).map(lambda pair: f"({pair[0]} {pair[1]})")
tree = st.recursive(leaf, lambda t: st.tuples(t, t).map(lambda two: f"(1 {two[0]} {two[1]})"), max_leaves=25)


@settings(max_examples=40)
@given(st.lists(tree, min_size=1, max_size=5), st.sampled_from(("treelstm", "treelstm-2type", "mvrnn")))
def test_drawn_trees_have_the_same_bits(trees: list[object], name: str) -> None:
    made = model(name)
    same(passed(made, trees), ordinary(made, trees))


@settings(max_examples=25)
@given(st.data())
def test_drawn_pairs_have_the_same_bits(data: st.DataObject) -> None:
    made = model("attention-nmt")
    sides = [[side.split() for side in text.split("|||")] for text in texts("attention-nmt")]
    known = [sorted({word for pair in sides for word in pair[side]}) for side in (0, 1)]
    sentences = [st.lists(st.sampled_from(some), min_size=3, max_size=9).map(" ".join) for some in known]
    pairs = data.draw(st.lists(st.tuples(*sentences).map(" ||| ".join), min_size=1, max_size=4))
    same(passed(made, pairs), ordinary(made, pairs))


@st.composite
def lattice(draw: st.DrawFn) -> str:
    length = draw(st.integers(1, 6))
    lines = [str(length), " ".join(str(draw(st.integers(0, 9))) for _ in range(length)), "0"]
    for position in range(1, length):
        begins = draw(st.lists(st.integers(0, position - 1), max_size=3))
        arcs = [f"{begin} {draw(st.integers(0, 99))}" for begin in (position - 1, *begins)]
        lines.append(" ".join([str(len(arcs)), *arcs]))
    return "\n".join(lines)


@settings(max_examples=25)
@given(st.lists(lattice(), min_size=1, max_size=4))
def test_drawn_lattices_have_the_same_bits(lattices: list[object]) -> None:
    made = model("lattice")
    same(passed(made, lattices), ordinary(made, lattices))


WRONG: list[list[object]] = [
    ["(1 a", "(2 b)"], ["(1 a)\n(2 b)"], ["(1 a)\n(1 b)", ""], ["(1 a)", ""], ["(1 a) (2 b)"],
    ["\x01"], [7], [None], ["\ud800"], [(1, "a b")],
    ["(1 (2 a) (3 b) (4 c))\x00\n(1 a)"],
]  # fmt: skip


@pytest.mark.parametrize("instances", WRONG)
def test_what_is_not_plain_is_left_to_the_ordinary_way(instances: list[object]) -> None:
    made = model("treelstm")
    assert the_pass(made).objects(instances) is None
    try:
        expected: object = ordinary(made, instances)
    except (AbwError, TypeError) as error:
        expected = str(error)
    try:
        same(made(instances), expected)  # type: ignore[arg-type]
    except (AbwError, TypeError) as error:
        assert str(error) == expected


@pytest.mark.parametrize(
    ("name", "instances"),
    [
        ("lattice", ["1\n0\n0\n1\n0\n0", ""]),
        ("lattice", ["2\n0 0\n0\n1 0 5", "1\n0"]),
        ("attention-nmt", ["a b c ||| d e"]),
        ("attention-nmt", ["a b c"]),
        ("bilstm", ["a|b c"]),
        ("bilstm", ["|b"]),
        ("rings", ['{"vertices": [{"kind": "atom"}], "links": {"never": [[0, 0]]}}']),
        ("rings", ['{"vertices": [{"kind": "none", "element": 6, "position": [1, 2, 3]}]}']),
        ("rings", ['{"vertices": [{"kind": "atom", "element": 6, "position": [1, 2]}]}']),
        ("rings", ['{"vertices": [{"kind": "atom", "element": 6.5, "position": [1, 2, 3]}]}']),
        ("rings", ['{"vertices": [{"kind": "atom", "element": "C", "position": [1, 2, 3]}]}']),
        ("rings", ['{"vertices": [{"kind": "bond", "element": 6, "length": 1}]}']),
        ("rings", ['{"vertices": [{"kind": "atom", "element": 6, "position": [1, 2, 1e39]}]}']),
        ("rings", ['{"vertices": [{"kind": "atom", "element": 6, "position": [1, 2, 3]}]', ""]),
        ("rings", ["[]"]),
        ("rings", [{"vertices": [{"kind": "atom", "element": 6, "position": np.ones(3)}]}]),
        ("plans/bao", ['[{"Plan": {"Node Type": "Seq Scan"}}, {"Plan": {"Node Type": "Seq Scan"}}]']),
        ("plans/bao", ['[{"Plan": {"Node Type": "Seq Scan"}}] x']),
        ("plans/bao", ['{"Plan": {}}']),
        ("dag", ['{"id": 12345678901234567890123, "vertices": [{"kind": "node"}]}']),
    ],
)
def test_faults_of_other_formats_end_the_pass(name: str, instances: list[object]) -> None:
    assert the_pass(model(name)).objects(instances) is None


def test_room_for_one_grows_with_the_calls() -> None:
    with patch.object(workspace, "LEAST", 64):
        made = load("treelstm", dims={"hidden": 8}, threads=1, policy="critical")
        made._passes.make(made._ready())
    for some in (texts("treelstm")[:1], texts("treelstm")):
        same(passed(made, list(some)), ordinary(model("treelstm"), list(some)))
    with patch.object(workspace, "MOST", 64), patch.object(workspace, "LEAST", 64):
        small = load("treelstm", dims={"hidden": 8}, threads=1, policy="critical")
        small._passes.make(small._ready())
        assert the_pass(small).objects(list(texts("treelstm"))) is None


@pytest.mark.parametrize(("word", "most"), [(at.MOST_FLOATS, 10), (at.MOST_FLOPS, 10)])
def test_what_is_too_large_is_left_to_the_ordinary_way(word: int, most: int) -> None:
    made, some = model("treelstm"), list(texts("treelstm"))
    space = the_pass(made)._space
    before = int(space.words[word])
    space.words[word] = most
    assert the_pass(made).objects(some) is None
    same(made(some), ordinary(made, some))
    space.words[word] = before


def test_an_fsm_in_a_state_that_it_does_not_know_is_left_to_the_ordinary_way() -> None:
    made, some = model("lattice", "fsm"), list(texts("lattice"))
    words = the_pass(made)._space.words
    action, size = words[at.FSM_SLOTS], int(words[at.FSM_SLOTS + 1])
    empty = np.full(size, -1, np.int32)
    the_pass(made)._space.point(at.FSM_SLOTS, empty)
    assert the_pass(made).objects(some) is None
    words[at.FSM_SLOTS] = action
    same(passed(made, some), ordinary(made, some))


def test_runs_between_two_calls_and_other_models_do_not_matter() -> None:
    one, other = model("treelstm"), model("lattice")
    mine, theirs = list(texts("treelstm")), list(texts("lattice"))
    expected, others = ordinary(one, mine), ordinary(other, theirs)
    for _ in range(3):
        first = passed(one, mine)
        same(passed(other, theirs), others)
        one.run(one.plan(one.graph(mine[:2])))
        same(passed(one, mine), expected)
        same(first, expected)  # what a call gave stays


def test_a_result_cannot_be_read_after_a_pass() -> None:
    made = model("treelstm")
    graph = made.graph(list(texts("treelstm")))
    result = made.run(made.plan(graph))
    passed(made, list(texts("treelstm"))[:1])
    with pytest.raises(RuntimeError, match="the executor has run again"):
        result.values(graph.results[0].reference)


def test_other_weights_count_from_the_next_call_on() -> None:
    made, some = load("sst", dims={"hidden": 8}, threads=1, policy="depth"), list(texts("sst"))
    made._passes.make(made._ready())
    before = made(some)
    made.trainer().step(some)
    after = made(some)
    assert before["classes"].values.tobytes() != after["classes"].values.tobytes()
    same(after, ordinary(made, some))


def test_many_calls_take_no_more_memory() -> None:
    made, some = model("treelstm"), list(texts("treelstm"))[:1]
    found = the_pass(made)
    passed(made, some)
    block, room = found._space._block, int(found._space.words[at.ROOM])
    kept = len(found._space._table._kept)
    for _ in range(300):
        passed(made, some)
    assert found._space._block is block and found._space.words[at.ROOM] == room
    assert len(found._space._table._kept) == kept


def test_warm_takes_a_pass_of_a_text() -> None:
    """So that what reads texts is compiled before a server answers."""
    made = load("treelstm", dims={"hidden": 8}, threads=1, policy="depth")
    with patch.object(Pass, "objects", return_value=None) as called:
        made.warm()
    assert called.call_count == 1


def test_no_pass_for_what_it_cannot_take() -> None:
    for name, options in (
        ("treelstm", {"executor": "reference"}),
        ("treelstm", {"granularity": "op"}),
        ("treelstm-2type", {"group": True}),
        ("lattice", {"fuse": True}),
        ("greedy", {"dedup": "on"}),
    ):
        made = load(name, dims={"hidden": 8}, threads=1, policy="depth", **options)
        assert made._passes.make(made._ready()) is None, (name, options)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("experts", None),
        ("greedy", None),
        ("words", None),
        ("bilstm-chars", "the data have `frequency`"),
        ("treelstm", None),
    ],
)
def test_check_says_why_a_call_is_no_pass(name: str, said: str | None) -> None:
    found = inspect(ROOT / "specs" / f"{name}.yaml", Overrides(limit=3), "cell", "depth")
    assert found["one_pass"] == said


@settings(max_examples=150)
@given(st.data(), st.sampled_from(["treelstm", "lattice", "attention-nmt", "bilstm", "rings", "plans/bao"]))
def test_damaged_texts_end_as_the_ordinary_way_does(data: st.DataObject, name: str) -> None:
    made, some = model(name), list(texts(name)[:2])
    which = data.draw(st.integers(0, len(some) - 1))
    text = some[which]
    for _ in range(data.draw(st.integers(1, 3))):
        begin = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(begin, min(len(text), begin + 4)))
        piece = data.draw(st.sampled_from(["", "\n", "(", ")", " ", "|", "|||", '"', "0", "9" * 12, "é"]))
        text = text[:begin] + piece + text[end:]
    some[which] = text
    found = the_pass(made).objects(some)
    try:
        expected = ordinary(made, some)
    except AbwError:
        assert found is None
        return
    if found is not None:
        same(found, expected)


def test_narrow_weights_hoisted_products_and_copies_have_the_same_bits() -> None:
    for options in ({"precision": "int8"}, {"precision": "bf16"}, {"hoist": True}):
        made, some = model("lattice", "critical", **options), list(texts("lattice"))
        expected = ordinary(made, some)
        same(passed(made, some), expected)
    copied = copy.deepcopy(made)
    copied.warm()
    same(passed(copied, some), expected)


def test_threads_wait_for_each_other() -> None:
    made, some = model("treelstm"), list(texts("treelstm"))
    expected = ordinary(made, some)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: made(some), range(40)):
            same(found, expected)


def test_outputs_that_are_most_of_the_memory_are_given_away_with_it() -> None:
    made, some = model("treelstm"), list(texts("treelstm"))
    expected, space = ordinary(made, some), the_pass(made)._space
    with patch.object(type(space), "_lends", return_value=True):
        kept = []
        for _ in range(5):
            kept.append(passed(made, some))
            passed(made, some[:1])
    for each in kept:
        same(each, expected)
    first = kept[0]["classes"].values
    del kept, each
    passed(made, some[1:2])
    assert first.tobytes() == expected["classes"].values.tobytes()


@settings(max_examples=60)
@given(st.lists(st.text(st.sampled_from("ab9 ,.!ü€_\t\x1f😀\u2003"), max_size=9), min_size=1, max_size=3))
def test_tokens_are_found_as_python_finds_them(some: list[str]) -> None:
    made = model("words")
    try:
        expected: object = ordinary(made, some)
    except (AbwError, TypeError) as error:
        expected = str(error)
    found = the_pass(made).objects(list(some))
    if found is not None:
        same(found, expected)  # type: ignore[arg-type]
    elif not isinstance(expected, str):
        assert any(sign in "".join(some) for sign in "😀\x1f") or not all(map(str.strip, some))
