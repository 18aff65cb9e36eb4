"""abw's models inside PyTorch's: gradients, shared parameters, gradcheck. Skipped where PyTorch is absent."""

from __future__ import annotations

import copy
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch", reason="needs PyTorch: pip install torch")

ROOT = Path(__file__).parents[2]
TREES = [(3, (2, "It"), (4, (3, "works"), (2, "well"))), (2, "Fine"), (1, (2, "so"), (0, "bad"))]


def layer(hidden: int = 4) -> Any:
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
    from abw.torch.gradients import Run
    from abw.torch.layer import _Graph

    made = layer(3)
    graph = made.model.graph(TREES)
    parameters = list(made.parameters())

    def run(*values: Any) -> Any:
        return Run.apply(_Graph(made, graph), *values)

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


def test_what_depends_on_gradients_is_refused() -> None:
    made = layer()
    loss = made(TREES)["classes"].sum()
    gradients = torch.autograd.grad(loss, list(made.parameters()), create_graph=True)
    penalty = sum(gradient.square().sum() for gradient in gradients)
    with pytest.raises(RuntimeError, match="can be differentiated once"):
        (made(TREES)["classes"].sum() + penalty).backward()


def by_torch(made: Any) -> Any:
    file = io.BytesIO()
    torch.save(made, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def by_pickle(made: Any) -> Any:
    return pickle.loads(pickle.dumps(made))


@pytest.mark.filterwarnings("ignore")  # PyTorch's own, while it compiles
def test_the_model_around_it_is_compiled() -> None:
    made, head = layer(), torch.nn.Linear(5, 2)

    def loss() -> Any:
        return torch.tanh(head(made(TREES)["classes"])).sum()

    def gradients() -> list[Any]:
        return [parameter.grad.clone() for parameter in (*made.parameters(), *head.parameters())]

    wanted = loss()
    wanted.backward()
    expected = gradients()
    made.zero_grad()
    head.zero_grad()
    found = torch.compile(loss, backend="eager")()
    found.backward()
    assert torch.equal(found, wanted)
    assert all(map(torch.equal, gradients(), expected))


@pytest.mark.parametrize("again", [copy.deepcopy, by_pickle, by_torch])
def test_a_copy_has_the_same_weights_and_memory_of_its_own(again: Any) -> None:
    made = layer()
    with torch.no_grad():
        made.get_parameter("output-b").add_(1)
    before = made(TREES)["classes"].detach()
    made.eval()
    other = again(made)
    assert not other.training
    torch.testing.assert_close(other(TREES)["classes"].detach(), before, rtol=0, atol=0)
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    other(TREES)["classes"].square().sum().backward()
    optimizer.step()
    assert not torch.equal(other(TREES)["classes"], before)
    torch.testing.assert_close(made(TREES)["classes"].detach(), before, rtol=0, atol=0)


def test_an_average_of_weights_is_kept_by_pytorch() -> None:
    made = layer()
    average = torch.optim.swa_utils.AveragedModel(made)
    average.update_parameters(made)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(3)
    average.update_parameters(made)
    for parameter, mean in zip(made.parameters(), average.parameters(), strict=True):
        torch.testing.assert_close(mean, parameter * 2 / 3)
    assert not torch.equal(average(TREES)["classes"], made(TREES)["classes"])


def test_parameters_that_pytorch_moves_are_read_where_they_are() -> None:
    made = layer()
    before = made(TREES)["classes"].detach()
    made.share_memory()  # as what is sent to another process is
    torch.testing.assert_close(made(TREES)["classes"].detach(), before, rtol=0, atol=0)
    with torch.no_grad():
        made.get_parameter("output-b").add_(1)
    assert not torch.equal(made(TREES)["classes"], before)
    with pytest.raises(RuntimeError, match=r"float32 on the CPU, but a parameter is torch.float64 on cpu"):
        made.double()(TREES)


NAMES = """\
model: names
data: {{format: words, path: t.txt}}
tables: {{{table}: {{dim: 5, rows: 7}}}}
cells:
  c: {{inputs: {{x: 5}}, params: {{A: [5, 5]}}, equations: "y = A @ x", outputs: {{y: y}}}}
types:
  c: {{per: token, cell: c, inputs: {{x: "{table}[word]"}}}}
outputs: {{h: c.y}}
"""


@pytest.mark.parametrize("table", ["training", "half", "model", "passes", "names", "c-A", "words"])
def test_any_name_that_a_spec_allows(table: str, tmp_path: Path) -> None:
    from abw.torch import Layer

    (tmp_path / "m.yaml").write_text(NAMES.format(table=table))
    (tmp_path / "t.txt").write_text("a b\n")
    made = Layer(str(tmp_path / "m.yaml"), threads=1)
    assert made.names == {"c.A": "c-A", table: table if table == "words" else f"{table}_"}
    made(["a b"])["h"].sum().backward()
    assert dict(made.named_parameters())[made.names[table]].grad.abs().sum() > 0
    other = Layer(str(tmp_path / "m.yaml"), threads=1, seed=1)
    other.load_state_dict(made.state_dict())
    torch.testing.assert_close(other(["a b"])["h"], made(["a b"])["h"], rtol=0, atol=0)


def test_parameters_changed_before_the_backward_pass_are_an_error() -> None:
    made = layer()
    loss = made(TREES)["classes"].sum()
    with torch.no_grad():
        made.get_parameter("output-b").add_(1)
    with pytest.raises(RuntimeError, match="changed between its forward and backward pass"):
        loss.backward()


def test_without_a_seed_a_layers_coin_is_the_specs(tmp_path: Path) -> None:
    from abw.torch import Layer

    (tmp_path / "d.txt").write_text("a b\n")
    spec = tmp_path / "coins.yaml"
    spec.write_text("""
model: coins
data: {format: words, path: d.txt, seed: 5}
tables: {w: {dim: 2}}
cells:
  c: {inputs: {x: 2}, params: {A: [2, 2]}, equations: "y = A @ x", outputs: {y: y}}
types:
  t: {per: token, where: coin == 1, cell: c, inputs: {x: "w[word]"}}
outputs: {y: t.y}
""")
    text = ["a b c d e f g h"]
    assert Layer(str(spec))(text)["y"].shape == Layer(str(spec), seed=5)(text)["y"].shape
    assert Layer(str(spec))(text)["y"].shape != Layer(str(spec), seed=0)(text)["y"].shape
