"""`--weights` of the commands that look at graphs: what grows depends on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import abw as api
from tests.cli.conftest import Abw

CHAIN = """
model: chain
data: {format: words, path: d.txt, batch: 80}
grow:
  step:
    links: {prev: step or none}
    most: 8
    start: {}
    choose: {more: argmax score.y}
    then: [{add: step, when: more, prev: this}]
params: {h0: {shape: 4, init: 0.5}}
cells:
  state: {inputs: {h: 4}, params: {U: [4, 4]}, equations: "z = tanh(U @ h)", outputs: {z: z}}
  score: {inputs: {z: 4}, params: {W: [2, 4]}, equations: "y = W @ z", outputs: {y: y}}
types:
  state: {per: step, cell: state, inputs: {h: prev.state.z or h0}}
  score: {per: step, cell: score, inputs: {z: state.z}}
outputs: {more: step.more}
"""


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("chain")
    (folder / "d.txt").write_text("a\n" * 80)
    (folder / "chain.yaml").write_text(CHAIN)
    return str(folder / "chain.yaml")


@pytest.fixture(scope="module")
def trained(spec: str) -> str:
    """Weights with other vertices than those of the seeds 0 and 3."""

    def grown(seed: int) -> tuple[int, Any]:
        model = api.load(spec, policy="depth", seed=seed)
        return len(model(["a"])["more"].values), model.params

    others = {grown(seed)[0] for seed in (0, 3)}
    file = Path(spec).with_name("trained.npz")
    np.savez(
        file, **next(params for count, params in map(grown, (1, 2, *range(4, 40))) if count not in others)
    )
    return str(file)


def test_what_is_looked_at_is_what_is_run(abw: Abw, spec: str, trained: str) -> None:
    nodes = {}
    for weights in ((), ("--weights", trained), ("--seed", "3")):
        run = abw("run", spec, *weights, "--policy", "depth", "--json", "--no-keep").json()
        explained = abw("explain", spec, *weights, "--policy", "depth", "--json").json()
        compared = abw("compare", spec, *weights, "--policies", "depth", "--json").json()
        seen = abw("viz", spec, *weights, "--by", "depth", "--batches", "--json")
        assert seen.code == 0, seen.err
        assert run["nodes"] == explained["nodes"] == compared["nodes"]
        assert explained["growth"]["vertices"] == run["growth"]["vertices"]
        assert explained["random_weights"] == compared["random_weights"] == (weights[:1] != ("--weights",))
        nodes[weights] = run["nodes"]
    assert nodes["--weights", trained] not in (nodes[()], nodes["--seed", "3"])


def test_random_weights_are_named(abw: Abw, spec: str, trained: str) -> None:
    for command in ("explain", "compare", "learn"):
        extra = ("--policies", "depth") if command == "compare" else ()
        said = "its weights are random, and what grows depends on them"
        assert said in " ".join(abw(command, spec, *extra).out.split())
        found = abw(command, spec, *extra, "--weights", trained)
        assert found.code == 0, found.err
        assert said not in " ".join(found.out.split())
    assert "grown by random weights" in abw("viz", spec, "--batches").out
    assert "random" not in abw("viz", spec, "--batches", "--weights", trained).out
    abw("run", spec, "--weights", trained)
    assert "random" not in abw("viz", "--batches").out
    assert "weights are random" not in abw("explain").out


def test_check_takes_weights(abw: Abw, spec: str, trained: str, tmp_path: Path) -> None:
    found = abw("check", spec, "--weights", trained, "--json")
    assert found.json()["weights"] == trained
    other = tmp_path / "other.npz"
    np.savez(other, W=np.zeros(3, np.float32))
    assert abw("check", spec, "--weights", str(other)).code != 0


def test_check_counts_pytorch_where_it_reads_the_weights(
    abw: Abw, spec: str, trained: str, tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    state = {name: torch.from_numpy(values) for name, values in np.load(trained).items()}
    torch.save(state, tmp_path / "w.pt")
    plain = abw("check", spec, "--weights", trained, "--json").json()["process_bytes"]
    found = abw("check", spec, "--weights", str(tmp_path / "w.pt"), "--json").json()["process_bytes"]
    assert plain["pytorch"] == 0 and found["pytorch"] > 50_000_000
    parts = ("at_rest", "pytorch", "weights", "instances", "mini_batches")
    assert found["total"] == sum(found[part] for part in parts)
    assert "PyTorch, which reads them," in abw("check", spec, "--weights", str(tmp_path / "w.pt")).out
    assert "PyTorch" not in abw("check", spec, "--weights", trained).out
