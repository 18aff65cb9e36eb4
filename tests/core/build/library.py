"""A built library as Python calls it, beside the model that it was made of."""

from __future__ import annotations

import runpy
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import abw
from abw.core.api import LoadedModel

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "specs/library"
COMPILER = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), "")
needs_compiler = pytest.mark.skipif(not COMPILER, reason="not installed: a C compiler")
Library: Any = runpy.run_path(str(EXAMPLES / "answer.py"))["Library"]


def loaded(spec: str, hidden: int = 6) -> LoadedModel:
    """A shipped model, small."""
    dims = {"hidden": hidden} if "hidden" in (ROOT / f"specs/{spec}.yaml").read_text() else {}
    model: LoadedModel = abw.load(ROOT / f"specs/{spec}.yaml", dims=dims, threads=1)
    return model


def lines_of(model: LoadedModel, count: int) -> list[str]:
    """The first instances of the model's data, those that are a line each."""
    assert model.spec.data.path
    text = model.spec.data.path.read_text()
    if model.spec.data.format != "lattice":
        return [line for line in text.splitlines() if line.strip()][:count]
    found: list[str] = []
    rest = [line for line in text.splitlines() if line.strip()][1:]
    while rest and len(found) < count:
        end = int(rest[0]) + 2
        found.append("\n".join(rest[:end]))
        rest = rest[end:]
    return found


def require_equal(library: Any, model: LoadedModel, lines: Sequence[str]) -> None:  # noqa: ANN401
    """Compare the library's answers with the model's, bit for bit."""
    found, expected = library(list(lines)), model(list(lines))
    assert [*found] == [output.name for output in model.outputs]
    for name, instances in found.items():
        assert len(instances) == len(lines)
        for values, wanted in zip(instances, expected[name], strict=True):
            if (names := expected[name].names) is not None:
                assert values == [[names[n]] if n >= 0 else [-1] for n in wanted.tolist()]
                continue
            flat = np.ascontiguousarray(wanted, np.float32).reshape(len(values), -1)
            assert np.array(values, np.float32).tobytes() == flat.tobytes()
