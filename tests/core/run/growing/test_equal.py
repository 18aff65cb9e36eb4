"""Equal nodes of mini-batches that grow computed once: the same bits, and what a dictionary finds."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.exec.params import init_params
from abw.core.run.checks import refuse_values
from abw.core.run.dedup import Deduplicator
from abw.core.run.minibatches import MiniBatch
from tests.core.run.growing.runs import GROWING, SPECS, check_equal_nodes, grown, looking, opened, ready


@pytest.mark.parametrize("spec", GROWING)
def test_shipped_models_have_the_same_bits(spec: str) -> None:
    workload = opened(SPECS / f"{spec}.yaml", limit=12, hidden=8)
    params = init_params(workload.network, 3)
    check_equal_nodes(workload, ready(workload, "reference", params))
    check_equal_nodes(workload, ready(workload, "cpu", params, 1))


def twice(folder: Path, name: str) -> Path:
    """A shipped spec whose data has every instance twice."""
    shutil.copytree(SPECS / "cells", folder / "cells")
    shutil.copytree(SPECS / "data", folder / "data")
    lines = (SPECS / "data" / "pairs.txt").read_text().splitlines()[:6]
    (folder / "data" / "pairs.txt").write_text("\n".join([*lines, *lines]) + "\n")
    text = (SPECS / f"{name}.yaml").read_text()
    spec = folder / f"{name}.yaml"
    spec.write_text(text)
    return spec


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["greedy", "beam"])
def test_instances_that_decide_alike_share_all_their_nodes(tmp_path: Path, name: str, threads: int) -> None:
    workload = opened(twice(tmp_path, name), hidden=8)
    executor = ready(workload, "cpu", init_params(workload.network, 1), threads)
    made = check_equal_nodes(workload, executor)
    if threads == 1:
        assert 2 * len(made.graph) <= len(made.result.nodes)


def test_chance_is_drawn_for_each_instance(tmp_path: Path) -> None:
    """Equal sources begin alike, and go on by their own draws."""
    spec = twice(tmp_path, "greedy")
    spec.write_text(spec.read_text().replace("argmax", "sample"))
    workload = opened(spec, hidden=8)
    made = check_equal_nodes(workload, ready(workload, "cpu", init_params(workload.network, 1), 1))
    values, start = made.instances.fields["next"], made.instances.start.tolist()
    half = (len(start) - 1) // 2
    said = [values[start[i] : start[i + 1]].tolist() for i in range(2 * half)]
    assert said[:half] != said[half:]
    assert 0 < made.equal_nodes < len(made.result.nodes) // 2


def test_auto_looks_at_large_mini_batches_where_it_pays(tmp_path: Path) -> None:
    workload = opened(twice(tmp_path, "greedy"), hidden=64)
    executor = ready(workload, "cpu", init_params(workload.network, 1), 1)
    equal = Deduplicator("auto", keys=looking(workload).keys)
    assert grown(workload, executor, equal=equal).equal_nodes == 0  # few come before growth
    equal.grown = 1000
    assert grown(workload, executor, equal=equal).equal_nodes > 0
    equal.flops[:] = 0.0
    equal.grown = 1000
    assert grown(workload, executor, 0, 6, equal).equal_nodes > 0 and equal.pause == 1
    assert grown(workload, executor, 0, 6, equal).graph.distinct is None and equal.pause == 0


def test_rows_of_fields_are_equal_by_their_bits() -> None:
    workload = opened(SPECS / "berxit.yaml", limit=3)
    assert workload.growing is not None
    columns = workload.growing.columns(0, 3)
    before = columns.block.copy()
    workload.growing.merge_rows(columns, 0, 3)
    assert (columns.block <= np.maximum(before, -1)).all()


def test_a_value_that_is_not_finite_names_all_instances_that_share_it(tmp_path: Path) -> None:
    workload = opened(twice(tmp_path, "greedy"), hidden=8)
    executor = ready(workload, "cpu", init_params(workload.network, 1), 1)
    made = grown(workload, executor, equal=looking(workload))
    last = int(made.result.nodes.type_ptr[1]) - 1  # an encoder's node, of the last sentence
    broken = made.result.values(np.array([last * workload.network.width])).copy()

    def read(references: NDArray[np.integer[Any]]) -> NDArray[np.floating[Any]]:
        values = np.asarray(made.result.values(references)).copy()
        if values.shape[1:] == broken.shape[1:]:
            values[(values == broken).all(axis=1)] = np.inf
        return values

    result = replace(made.result, read=read)
    batch = MiniBatch(0, 0, len(workload.instances), made)
    with pytest.raises(AbwError, match=r"instances 5 \(line 6\), 11 \(line 12\), in batch"):
        refuse_values(batch, result, workload.instances)
