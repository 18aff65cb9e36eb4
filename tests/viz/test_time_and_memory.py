"""What a run's batches took, why threads waited, and which bytes are needed when: against slow versions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.base.errors import AbwError
from abw.core.exec.interface import Executed
from abw.core.plan.arenas import arenas_of
from abw.core.policy.schedule import Schedule
from abw.core.run.observing.trace import load_times, save_times
from abw.core.run.pipeline import RunOptions, run
from abw.core.spec.load import Overrides
from abw.core.store.runs import find_run
from abw.core.tools.needed import batch_of, bytes_picture
from abw.viz.data.scene import Scene, scene_of_run
from abw.viz.data.times import ALONE, BETWEEN, ENDS, UNEVEN, WAKES, times_document
from abw.viz.page_data import vertices_document
from tests.core.exec.builder import random_graph, random_network, random_schedule

seeds = st.integers(0, 2**32 - 1)


@given(seeds)
def test_a_value_is_needed_from_its_batch_to_its_last_reader(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, random_network(rng), 30)
    schedule = random_schedule(rng, graph)
    batch, width = batch_of(schedule, len(graph)).tolist(), graph.network.width
    kept = {reference for refs in graph.results for reference in refs.reference.tolist()}
    arenas = arenas_of(graph.network)
    last: dict[int, int] = {}
    for v in range(len(graph)):
        for operand in graph.operand[graph.operand_ptr[v] : graph.operand_ptr[v + 1]].tolist():
            for reference in graph.values_of(operand):
                last[reference] = max(last.get(reference, 0), batch[v])
    wanted = np.zeros((len(schedule), len(graph.dag.types)), np.int64)
    for v in range(len(graph)):
        t = int(graph.dag.type[v])
        for o in range(int(arenas.outputs[t])):
            reference, size = v * width + o, 4 * int(arenas.row_floats[arenas.output_arena[t, o]])
            end = len(schedule) if reference in kept else last.get(reference, batch[v])
            wanted[batch[v] : end + 1, t] += size
    picture = bytes_picture(graph, schedule)
    assert (picture.needed == wanted).all()
    assert picture.arenas >= wanted.sum(axis=1).max(initial=0)
    assert all(count >= 0 for _, count in picture.owners)


def executed(parts: list[tuple[int, int, float, float]]) -> Executed:
    """Parts of batches: thread, batch, start, end in microseconds; the type is the batch's number."""
    thread, batch, start, end = (np.array(column) for column in zip(*parts, strict=True))
    none = np.full(len(parts), np.nan)
    return Executed(thread, batch, batch.astype(np.int32), batch + 1, 5 + start / 1e6, 5 + end / 1e6, none)


def test_why_threads_wait() -> None:
    parts = [(0, 0, 2, 12), (1, 0, 2, 6), (0, 1, 14, 22), (0, 2, 23, 32), (1, 2, 24, 28), (0, 3, 32, 35)]
    found = times_document(executed([(t, b, s - 2, e - 2) for t, b, s, e in parts]), 4)
    assert found["busy"] == pytest.approx([14, 8, 13, 3])
    assert found["threads"] == 2
    assert found["end"] == pytest.approx(33)
    assert [tuple(round(x) for x in wait) for wait in zip(*found["waits"].values(), strict=True)] == [
        (0, 10, 2, BETWEEN, -1),
        (0, 20, 1, BETWEEN, -1),
        (1, 4, 6, UNEVEN, 0),
        (1, 10, 2, BETWEEN, -1),
        (1, 12, 8, ALONE, 1),
        (1, 20, 1, BETWEEN, -1),
        (1, 21, 1, UNEVEN, 2),
        (1, 26, 4, UNEVEN, 2),
        (1, 30, 3, ENDS, 3),
    ]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 9), st.integers(1, 5))), seeds)
def test_work_and_waiting_fill_every_thread(drawn: list[tuple[int, int, int, int]], _: int) -> None:
    now, parts = [0.0] * 4, []
    for thread, batch, gap, length in drawn:
        parts.append((thread, batch, now[thread] + gap, now[thread] + gap + length))
        now[thread] += gap + length
    if not parts:
        return
    found = times_document(executed(parts), 6)
    whose, _begin, waits, why, behind = map(np.array, found["waits"].values())
    took, by = np.array(found["took"]), np.array(found["thread"])
    for t in {thread for thread, *_ in parts}:
        worked, waited = took[by == t].sum(), waits[whose == t].sum()
        assert worked + waited == pytest.approx(found["end"], abs=1e-3)
    assert sum(found["busy"]) == pytest.approx(took.sum(), abs=1e-3)
    assert ((behind < 0) == (why == BETWEEN))[~np.isin(why, (WAKES, ENDS))].all()


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Scene:
    """Two mini-batches of trees, profiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ABW_HOME", str(tmp_path_factory.mktemp("home")))
        patch.chdir(root)
        changes = Overrides(dims={"hidden": 4, "embed": 4}, limit=4, batch=2)
        run(Path("specs/treelstm.yaml"), changes, RunOptions(policy="agenda", profile=True))
        return scene_of_run(find_run(None), 1)


def test_a_profiled_run_keeps_what_each_batch_took(profiled: Scene) -> None:
    assert profiled.times is not None
    schedule = profiled.schedules[profiled.own]
    picture = times_document(profiled.times, len(schedule))
    assert sorted(set(picture["batch"])) == list(range(len(schedule)))
    assert min(picture["busy"]) > 0
    assert np.bincount(picture["batch"], picture["rows"]).tolist() == np.diff(schedule.ptr).tolist()


def test_damaged_times_are_told_and_those_of_other_batches_left(profiled: Scene, tmp_path: Path) -> None:
    assert profiled.times is not None
    schedule = profiled.schedules[profiled.own]
    save_times(tmp_path, [profiled.times])
    assert load_times(tmp_path, 1, schedule) is None
    assert load_times(tmp_path, 0, schedule) is not None
    other = Schedule(schedule.type[::-1].copy(), schedule.ptr, schedule.nodes)
    assert load_times(tmp_path, 0, other) is None
    file = tmp_path / "times" / "0000.npz"
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(AbwError, match="damaged"):
        load_times(tmp_path, 0, schedule)


def test_what_the_data_says_of_a_vertex(profiled: Scene) -> None:
    assert profiled.origin is not None
    document = vertices_document(profiled.origin)
    assert document["numbers"] == [2, 3]
    words = next(field for field in document["fields"] if field["name"] == "word")
    text = Path("specs/data/trees.txt").read_text().splitlines()
    for i, line in enumerate(document["lines"]):
        leaves = profiled.vertex[
            (profiled.instance == i) & (profiled.dag.type == profiled.dag.types.index("leaf"))
        ]
        assert all(words["words"][words["of"][v]] in text[line - 1].lower() for v in leaves)
