"""Fourteen models in the shapes of public repositories: values, decisions and gradients are PyTorch's."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install torch")
pytest.importorskip("greenlet", reason="models that decide need greenlet: pip install greenlet")

from tests.torch import shapes  # noqa: E402
from tests.torch.models import check  # noqa: E402


@pytest.mark.parametrize("name", shapes.CASES)
def test_values_decisions_and_gradients_are_pytorchs(name):
    make, data = shapes.CASES[name]
    torch.manual_seed(1)
    shapes.rng.seed(5)
    model, items = make().eval(), data()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is left to PyTorch
        check(model, items)
