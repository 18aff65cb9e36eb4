"""Translators trained in PyTorch say the words that PyTorch says, greedily and with a beam."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from abw.core.base.progress import Clock
from abw.core.exec.registry import get_executor
from abw.core.exec.trained import load_weights, make_params
from abw.core.policy.registry import get_policy
from abw.core.run.columns import columns_of
from abw.core.run.minibatches import run_all
from abw.core.run.workload import open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides

BATCH = 16


def said(spec: Path, weights: Path, executor: str) -> list[list[int]]:
    """The rows of the words of each sentence's translation."""
    overrides = Overrides(dims={"hidden": 16, "embed": 8}, weights=weights, batch=BATCH)
    model = open_model(spec, overrides)
    workload = open_workload(model, read_instances(model.data, None), open_networks(model, "cell"))
    chosen = get_executor(executor)
    chosen.prepare(workload.network, make_params(workload.network, load_weights(model), 0), 1)
    clock = Clock("construct", "schedule", "plan", "execute")
    found: list[list[int]] = []
    for batch, result in run_all(workload, get_policy("depth"), chosen, clock):
        (column,) = columns_of(workload, batch, result)
        words = np.split(column.values, np.cumsum(column.counts)[:-1])
        found += [one.tolist() for one in words]
    return found


def with_beam(text: str, width: int) -> str:
    """A spec with a beam of another width, if it has none with one."""
    found = text.replace("best 4 of", f"best {width} of").replace("argmax", f"best {width} of")
    found = found.replace("most: 20\n", "most: 77\n").replace("{said: <s>}", "{said: <s>, length: 1}")
    found = found.replace("{said: targets}", "{said: targets, length: number}")
    return found.replace(
        "{add: step, unless: next == </s>, prev: this, said: next}",
        "{add: step, each: next, when: length < 20, unless: next == </s>, prev: this, said: next,"
        " length: length + 1}",
    )


@pytest.mark.parametrize("executor", ["blas", "cpu"])
@pytest.mark.parametrize("name", ["torch-greedy", "torch-beam"])
def test_what_is_said_is_what_pytorch_says(root: Path, tmp_path: Path, name: str, executor: str) -> None:
    golden = root / "tests/golden/torch"
    shutil.copytree(root / "specs", tmp_path / "specs")
    spec, weights = tmp_path / f"specs/{name}.yaml", golden / f"{name}.npz"
    with np.load(golden / f"{name}-expected.npz") as file:
        wanted = {
            how: [one.tolist() for one in np.split(file[how], file[f"{how}-offsets"][1:-1])]
            for how in ("greedy", "beam")
        }
    assert len(wanted["greedy"]) == 48 and wanted["greedy"] != wanted["beam"]
    assert len({len(one) for one in wanted["beam"]}) > 3
    text = spec.read_text()
    shipped, other = ("greedy", 4) if name == "torch-greedy" else ("beam", 1)
    assert said(spec, weights, executor) == wanted[shipped]
    spec.write_text(with_beam(text, other))
    assert said(spec, weights, executor) == wanted["beam" if other == 4 else "greedy"]
