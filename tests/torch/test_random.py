"""Random models, batched and one instance at a time: values, decisions and gradients are the same."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install torch")
pytest.importorskip("greenlet", reason="models that decide need greenlet: pip install greenlet")

from abw.torch import batch  # noqa: E402
from tests.torch.grammar import drawn  # noqa: E402
from tests.torch.models import Drops, assert_alike, check, gradients  # noqa: E402


@pytest.mark.parametrize("seed", range(5))
def test_random_models_give_what_pytorch_gives(seed):
    model, trees, source = drawn(seed)
    try:
        check(model.eval(), trees, tolerance=3e-5)  # some amplify rounding
    except Exception:
        print(source)
        raise


def test_dropout_draws_the_masks_that_pytorch_draws():
    torch.manual_seed(1)
    model, words = Drops().train(), [[1, 2, 3], [4], [5, 6]]
    fast = batch(model)
    torch.manual_seed(7)
    theirs = [model(one) for one in words]
    after = torch.rand(1)
    torch.manual_seed(7)
    ours = fast(words)
    assert torch.equal(after, torch.rand(1))
    assert_alike(theirs, ours)
    wanted = gradients(model, theirs)
    for name, gradient in gradients(model, ours).items():
        assert_alike(wanted[name], gradient, 1e-5)
    assert any(not torch.equal(a, b) for a, b in zip(ours, fast(words), strict=True))
    fast.eval()
    assert_alike([model(one) for one in words], fast(words))
