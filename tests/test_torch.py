"""abw's models inside PyTorch's: gradients, shared parameters, gradcheck. Skipped where PyTorch is absent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch", reason="needs PyTorch: pip install torch")

ROOT = Path(__file__).parents[1]
TREES = [(3, (2, "It"), (4, (3, "works"), (2, "well"))), (2, "Fine"), (1, (2, "so"), (0, "bad"))]


def layer(hidden: int = 4) -> Any:  # noqa: ANN401
    from abw.torch import Layer

    return Layer(str(ROOT / "specs/treelstm.yaml"), dims={"hidden": hidden}, threads=1)


def test_gradients_of_a_pytorch_loss_are_those_of_abws_own() -> None:
    made = layer()
    labels = torch.tensor([3, 2, 4, 3, 2, 2, 1, 2, 0])
    scores = made(TREES)["classes"]
    loss = torch.nn.functional.cross_entropy(scores, labels, reduction="sum")
    loss.backward()
    import abw

    own = abw.load(ROOT / "specs/sst.yaml", dims={"hidden": 4}, policy="sufficient", threads=1)
    trainer = own.trainer()
    for name, value in trainer.params.items():
        value[...] = made.get_parameter(name.replace(".", "-")).detach().numpy()
    trainer.changed()
    total, gradient = trainer.gradient(TREES)
    assert float(loss.detach()) / 3 == pytest.approx(total, rel=1e-5)
    theirs = np.concatenate([p.grad.numpy().ravel() for p in made.parameters()]) / 3
    np.testing.assert_allclose(theirs, gradient, atol=1e-6)


def test_gradcheck() -> None:
    from abw.torch import _Run

    made = layer(3)
    graph = made.model.graph(TREES)
    parameters = list(made.parameters())

    def run(*values: Any) -> Any:  # noqa: ANN401
        return _Run.apply(made, graph, *values)

    with pytest.warns(UserWarning, match="double precision"):
        # steps and tolerance are those that single precision allows
        assert torch.autograd.gradcheck(
            run, parameters, eps=1e-2, atol=2e-3, rtol=2e-2, check_batched_grad=False
        )


def test_an_optimiser_of_pytorchs_trains_it_beside_a_head() -> None:
    made, head = layer(), torch.nn.Linear(5, 2)
    optimizer = torch.optim.Adam([*made.parameters(), *head.parameters()], lr=0.05)
    labels = torch.tensor([0, 1, 0, 1, 0, 1, 0, 1, 0])
    losses = []
    for _ in range(25):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(head(made(TREES)["classes"]), labels)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]


def test_two_mini_batches_before_their_backward_passes() -> None:
    made = layer()
    apart = []
    for trees in (TREES[:1], TREES[1:]):
        made.zero_grad()
        made(trees)["classes"].square().sum().backward()
        apart.append([p.grad.clone() for p in made.parameters()])
    made.zero_grad()
    both = [made(trees)["classes"].square().sum() for trees in (TREES[:1], TREES[1:])]
    (both[0] + both[1]).backward()
    for p, one, other in zip(made.parameters(), *apart, strict=True):
        torch.testing.assert_close(p.grad, one + other)


def test_parameters_changed_before_the_backward_pass_are_an_error() -> None:
    made = layer()
    loss = made(TREES)["classes"].sum()
    with torch.no_grad():
        made.get_parameter("output-b").add_(1)
    with pytest.raises(RuntimeError, match="changed between its forward and backward pass"):
        loss.backward()
