"""A model that is not worth batching says so, once; its results are the same, random draws included."""

from __future__ import annotations

import itertools
import sys
import warnings
from functools import partial

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install torch")
pytest.importorskip("greenlet", reason="models that decide need greenlet: pip install greenlet")

from abw.torch import batch, watch  # noqa: E402
from tests.torch.models import Drops, assert_alike  # noqa: E402
from tests.torch.odd import MODELS  # noqa: E402

TIMED = watch.MOST_TIMED
ITEMS = [[1, 2], [3, 4, 5], [6], [7, 8, 9, 1], [2, 2]]


def calls(make, items, monkeypatch, seconds, timed=TIMED):
    """Call four times, where a mini-batch takes so many seconds; the warnings that something is slower."""
    monkeypatch.setattr(watch, "MOST_TIMED", timed)
    clock = itertools.count(step=seconds)
    monkeypatch.setattr(sys.modules["abw.torch.batch"], "perf_counter", lambda: next(clock))
    fast = make()
    with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outputs = [fast(items) for _ in range(4)]
    return fast, outputs, [str(w.message) for w in caught if "slower than PyTorch" in str(w.message)]


@pytest.mark.parametrize("seconds", [1e6, 0.0])
def test_what_is_left_to_pytorch_is_timed_and_said_with_its_line(monkeypatch, seconds):
    torch.manual_seed(1)
    model = MODELS["left"]().eval()
    fast, outputs, said = calls(partial(batch, model), ITEMS, monkeypatch, seconds)
    with torch.no_grad():
        for found in outputs:
            assert_alike([model(item) for item in ITEMS], found)
    assert len(said) == (seconds > 0)
    assert all("odd.py:" in one and "torch.cumprod is computed by PyTorch" in one for one in said)
    assert ("slower than PyTorch" in fast.report()) == (seconds > 0)
    assert "ms by PyTorch alone" in fast.report()


def test_all_are_timed_and_single_instances_are_said_to_be_single(monkeypatch):
    model = MODELS["factor"]().eval()
    assert calls(partial(batch, model), ITEMS, monkeypatch, 0.0)[2] == []
    (said,) = calls(partial(batch, model), ITEMS, monkeypatch, 1e6)[2]
    assert "few operations in common" in said
    (said,) = calls(partial(batch, model), ITEMS[:1], monkeypatch, 1e6)[2]
    assert "1 run together" in said


def test_random_draws_are_those_without_a_comparison(monkeypatch):
    model, found = Drops().train(), []
    for timed in (TIMED, 0):
        torch.manual_seed(7)
        make = partial(batch, model, batch=1)
        _, outputs, said = calls(make, [[1, 2, 3], [4]], monkeypatch, 1e6, timed)
        assert bool(said) == bool(timed)
        found.append((outputs, torch.rand(1)))
    assert_alike(found[0], found[1], tolerance=0.0)
