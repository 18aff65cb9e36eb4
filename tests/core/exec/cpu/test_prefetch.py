"""Results are the same bit for bit whatever the second-level cache holds: tiles and weights asked for."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from abw.core.exec.cpu import executor, prepare
from abw.core.exec.cpu import target as of_target
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.cpu.llvm.compiled import Code, compile_ir
from abw.core.exec.cpu.llvm.emit import READ_FAR
from abw.core.exec.cpu.target import TARGETS, USUAL_CACHE, Target, TargetName, get_target
from abw.core.exec.cpu.tiling import StageLayout
from abw.core.exec.memory import LINE
from abw.core.exec.params import Params, init_params
from abw.core.jit.pointers import address
from abw.core.plan.plan import Plan, plan
from tests.core.exec.builder import random_graph, random_network, random_schedule
from tests.core.exec.corners import gates_cell, once, one_type

HERE = TARGETS[TARGETS.index(get_target().name) :]
# Bytes of a cache: tiles of one row and all weights streamed, small tiles, and nothing streamed.
NONE, SOME, ALL = 0, 1 << 14, 1 << 40


def computed(planned: Plan, params: Params, name: TargetName, cache: int) -> tuple[str, NDArray[np.float32]]:
    """The kernels' text, and all outputs."""
    with patch.object(executor, "get_target", lambda wanted: replace(get_target(wanted), cache=cache)):
        run = CpuExecutor(name)
    run.prepare(planned.graph.network, params, 1)
    graph, width = planned.graph, planned.graph.network.width
    found = run.run(planned)
    values = [
        found.read(np.array([node * width + output], np.int32)).ravel()
        for node in range(len(graph))
        for output in range(len(graph.network.types[graph.dag.type[node]].outputs))
    ]
    text, _, _ = prepare.emit_network(graph.network, run._target, None)
    return text, np.concatenate([*values, np.zeros(0, np.float32)])


@settings(max_examples=5)
@given(st.integers(0, 2**32 - 1), st.integers(0, 30), st.sampled_from(HERE), st.sampled_from((NONE, SOME)))
def test_any_cell(seed: int, nodes: int, name: TargetName, cache: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, random_network(rng), nodes)
    planned = plan(graph, random_schedule(rng, graph))
    params = init_params(graph.network, seed)
    _, expected = computed(planned, params, name, ALL)
    _, found = computed(planned, params, name, cache)
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", HERE)
@pytest.mark.parametrize(("gates", "size", "lanes"), [(4, 37, 70), (13, 24, 11)])
def test_weights_that_are_asked_for(gates: int, size: int, lanes: int, name: TargetName) -> None:
    graph, network = one_type(gates_cell(gates, size), lanes)
    planned, params = plan(graph, once(graph)), init_params(network, 0)
    text, expected = computed(planned, params, name, ALL)
    assert READ_FAR not in text
    # the weights do not stay, and some rows have room
    asking, found = computed(planned, params, name, 4 * size * size * gates)
    assert READ_FAR in asking
    assert found.tobytes() == expected.tobytes()


NOTED = """
@noted = global [65536 x i64] zeroinitializer
@count = global i64 0
define internal void @note(ptr %line, i32 %write, i32 %level, i32 %kind) noinline {
  %wanted = icmp eq i32 %level, LEVEL
  br i1 %wanted, label %yes, label %no
no:
  ret void
yes:
  %at = load i64, ptr @count
  %place = getelementptr i64, ptr @noted, i64 %at
  %address = ptrtoint ptr %line to i64
  store i64 %address, ptr %place
  %next = add i64 %at, 1
  store i64 %next, ptr @count
  ret void
}
define void @where(ptr %out) {
  %count = load i64, ptr @count
  store i64 %count, ptr %out
  %list = getelementptr i64, ptr %out, i64 1
  call void @llvm.memcpy.p0.p0.i64(ptr %list, ptr @noted, i64 524288, i1 false)
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


def noted(rows: int, level: int) -> tuple[CpuExecutor, set[int]]:
    """A run whose kernels note addresses instead of asking for them: the lines asked for at a level."""
    graph, network = one_type(gates_cell(5, 64), rows)
    planned, params = plan(graph, once(graph)), init_params(network, 0)

    def noting(text: str, target: Target) -> Code:
        declared = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
        assert declared in text
        text = text.replace(declared, "").replace("@llvm.prefetch.p0", "@note")
        return compile_ir(text + NOTED.replace("LEVEL", str(level)), target)

    with (
        patch.object(
            executor, "get_target", lambda wanted: replace(get_target(wanted), cache=USUAL_CACHE // 8)
        ),
        patch.object(prepare, "compile_ir", noting),
    ):
        run = CpuExecutor()
        run.prepare(network, params, 1)
    run.run(planned)
    out = np.zeros(65537, np.int64)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(run._kernels.code.address("where"))(address(out))
    return run, set(np.unique(out[1 : 1 + out[0]] // LINE).tolist())


@pytest.mark.parametrize(("rows", "all_of_it"), [(120, True), (30, True), (3, False)])
def test_the_next_columns_are_asked_for_whole(rows: int, all_of_it: bool) -> None:
    """All lines of a column while another is computed."""
    run, asked = noted(rows, level=2)
    (layout,) = run._kernels.layouts
    assert layout
    (constants,) = run._constants.memory
    stage = next(s for s in layout.stages if isinstance(s, StageLayout) and s.streamed)
    weights = stage.weights[0]
    assert weights.blocks > 1
    first = address(constants) // LINE + 4 * weights.offset // LINE
    whole = set(range(first, first + 4 * weights.blocks * weights.block_floats // LINE))
    assert whole <= asked if all_of_it else len(whole & asked) <= 2 * weights.blocks
    # at most a turn's lines behind the last
    assert asked <= set(range(first, first + 4 * len(constants) // LINE + 64))


@pytest.mark.parametrize(("rows", "some"), [(120, True), (3, False)])
def test_rows_are_asked_for_where_there_are_many(rows: int, some: bool) -> None:
    run, asked = noted(rows, level=3)
    held = [
        range(address(memory) // LINE, (address(memory) + memory.nbytes) // LINE + 1)
        for memory in run._memory.memory
        if memory.size
    ]
    assert bool(asked) == some
    assert all(any(line in lines for lines in held) for line in asked)


def test_the_cache_is_what_the_system_says(tmp_path: Path) -> None:
    file = tmp_path / "size"
    with patch.object(of_target, "SECOND_LEVEL", file):
        assert of_target._second_level() == USUAL_CACHE
        file.write_text("2048K\n")
        assert of_target._second_level() == 2048 * 1024
        file.write_text("nothing")
        assert of_target._second_level() == USUAL_CACHE
