"""What is run in the copy of abw that test_extending.py makes: the new function, data and names."""

from __future__ import annotations

import json

import numpy as np

import abw
from abw.core.exec.cpu.llvm.functions import OWN
from abw.core.exec.cuda.executor import CudaExecutor
from abw.core.exec.interface import Executor
from abw.core.exec.registry import get_executor
from abw.core.spec.keys.model import model_schema
from tests.core.exec.corners import EDGES, functions
from tests.core.exec.cuda.simulated import SimulatedDevice
from tests.pages.reference import reference


def operation() -> None:
    """hardtanh in every executor; in the executor cpu both by its own code and by its steps."""
    executors: dict[str, Executor] = {
        "reference": get_executor("reference"),
        "blas": get_executor("blas"),
        "cpu": get_executor("cpu"),
        "cuda": CudaExecutor(SimulatedDevice(), "batch"),
        "steps": get_executor("cpu"),
    }
    planned, params = functions(EDGES, ["hardtanh"])
    expected = np.clip(np.array(EDGES, np.float32), -1, 1)[:, None]
    for name, executor in executors.items():
        if name == "steps":
            del OWN["hardtanh"]  # type: ignore[attr-defined]
        executor.prepare(planned.graph.network, params, 1)
        with np.errstate(all="ignore"):
            found = executor.run(planned).value(0, 0).astype(np.float32)
        np.testing.assert_array_equal(found, expected, err_msg=name)
        print(name)


def series() -> None:
    """A model over instances of the new format, given in Python."""
    model = abw.load("model.yaml", policy="largest", executor="single")
    instances = [[3, 1, 4], [1, 5, 9, 2], [6]]
    found = model([instances[0], "1 5 9 2", instances[2]])["h"]
    for i, numbers in enumerate(instances):
        h = np.zeros(8)
        for number, row in zip(numbers, found[i], strict=True):
            h = np.clip(model.params["numbers"][number] - h, -1, 1) - 1
            np.testing.assert_allclose(row, h, rtol=1e-6)
    try:
        model([[3], "3 x"])
    except abw.DataError as error:
        assert "instance 1:1:3: not a whole number" in str(error), error
        print("series")


def pages() -> None:
    """What is made from the tables has all of it."""
    page = reference()
    assert all(f"`{name}`" in page for name in ("hardtanh(x)", "largest", "single", "series"))
    assert "series" in json.dumps(model_schema()) and " hardtanh" in json.dumps(model_schema())


if __name__ == "__main__":
    pages()
    operation()
    series()
