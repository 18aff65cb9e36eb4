"""What is exported runs without PyTorch, and gives what the model gives."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install torch")
pytest.importorskip("greenlet", reason="models that decide need greenlet: pip install greenlet")

import abw  # noqa: E402
from abw.torch import batch  # noqa: E402
from tests.torch import idioms  # noqa: E402
from tests.torch.models import FIVE, five, tensors  # noqa: E402
from tests.torch.odd import MODELS  # noqa: E402


def by_size(outputs, scalars):
    """The rows of all tensors, by their size: a tensor of several rows has them one after the other."""
    found: dict[int, list[object]] = {}
    for tensor in tensors(outputs):
        size = 1 if scalars else tensor.shape[-1]
        found.setdefault(size, []).append(tensor.reshape(-1, size))
    return {size: torch.cat(rows).numpy() for size, rows in found.items()}


@pytest.mark.parametrize("name", FIVE)
def test_an_exported_model_gives_what_the_model_gives(name, tmp_path):
    model, columns = five(name)
    said = pytest.warns(UserWarning, match="Decisions are those") if name == "parser" else nullcontext()
    fast = batch(model.eval(), batch=4)
    with said:
        path = fast.export(tmp_path, *columns)
    text, report = path.read_text(), fast.report()
    assert ("# Decisions are those" in text) == (name == "parser")
    # cells are named by the lines that they come from, as in the report
    assert re.search(r"cell\d+:  # \w+.*, line \d+\n", text)
    assert re.search(r"\n  cell\d+_\w+_\d+: {per: ", text)
    assert {f"cell{n}" for n in re.findall(r"  cell(\d+):  #", text)} <= set(re.findall(r"cell\d+", report))
    with torch.no_grad():
        wanted = by_size([model(*item) for item in zip(*columns, strict=True)], name == "plans")
    lines = (tmp_path / "instances.jsonl").read_text().splitlines()
    found = abw.load(path)([json.loads(line) for line in lines])
    assert {f"out{size}" for size in wanted} == set(found)
    for size, rows in wanted.items():
        np.testing.assert_allclose(
            np.concatenate([*found[f"out{size}"]]).reshape(rows.shape), rows, atol=2e-6
        )


@pytest.mark.parametrize("name", ["rows_taken", "weights_computed", "sequentials"])
def test_numbers_spread_over_vectors_are_written_as_equations(name, tmp_path):
    torch.manual_seed(1)
    model, items = MODELS[name]().eval(), [[1, 2], [3, 4, 5], [6]]
    path = batch(model).export(tmp_path, items)
    lines = (tmp_path / "instances.jsonl").read_text().splitlines()
    found = np.concatenate([*abw.load(path)([json.loads(line) for line in lines])["out6"]])
    with torch.no_grad():
        wanted = by_size([model(item) for item in items], False)[6]
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, atol=2e-6)


def test_the_command_line_takes_what_is_exported(tmp_path):
    torch.manual_seed(1)
    with pytest.warns(UserWarning, match="Decisions are those"):  # only the last brings masks along
        path = batch(idioms.MODELS["pointer"]().eval()).export(tmp_path, [[1], [2], [3, 4, 5]])
    hidden = "import sys; sys.modules['torch'] = None; from abw.__main__ import main; main()"
    command = [sys.executable, "-c", hidden, "run", str(path), "--verify", "-q"]
    subprocess.run(command, check=True, cwd=tmp_path)
