"""The kernels for the gradients of weights beside NumPy's sums in double precision, on random graphs."""

from __future__ import annotations

import numpy as np
import pytest

from abw.core.exec.gradient import gradients_of
from abw.core.exec.params import init_params
from abw.core.exec.registry import get_executor
from tests.core.grad.test_graph import random_training

# Of this one a sum has no reader that gives it a gradient.
NEEDS_ZEROS = 461923670


@pytest.mark.parametrize("seed", [*range(16), NEEDS_ZEROS])
def test_kernels_sum_what_numpy_does(seed: int) -> None:
    found = random_training(seed, 20)
    if found is None:
        pytest.skip("no parameter reaches an output")
    _, made, plan, _ = found
    params = init_params(made.training.source, seed).flattened()
    executor = get_executor("cpu")
    executor.prepare(made.training.network, params, 1)
    with np.errstate(all="ignore"):
        result = executor.run(plan)
        expected = gradients_of(made, result.values, params).vector(params)
        ours = executor.gradient(made, plan, result, params).vector(params)
    there = np.isfinite(expected)
    scale = np.abs(expected[there]).max(initial=1e-30)
    np.testing.assert_allclose(ours[there], expected[there], atol=1e-5 * scale, rtol=0)
    assert there.all() or not np.isfinite(ours[~there]).all()
