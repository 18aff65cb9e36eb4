"""The bench of growing models: what it times is what grew; PyTorch by hand decides the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from abw.bench.growth.acrobat import CONFIGURATIONS, PUBLISHED, WORDS, sentences, spec_text, timed
from abw.bench.growth.growing import BEAM, GREEDY, Growing
from abw.bench.growth.growth import decoding, parsing
from abw.bench.growth.limits import live
from abw.bench.growth.overhead import overhead, score_seconds
from abw.bench.growth.whole import whole
from abw.core.exec.params import init_params
from tests.core.run.growing.runs import grown, opened, ready


@pytest.fixture
def spec(tmp_path: Path, root: Path) -> Path:
    for name, text in (("greedy", GREEDY), ("beam", BEAM)):
        (tmp_path / f"{name}.yaml").write_text(
            text.replace("SPECS", str(root / "specs")).replace("DATA", "-")
        )
    return tmp_path / "greedy.yaml"


def test_a_sentence_has_as_many_words_as_its_translation(spec: Path, root: Path) -> None:
    data = root / "specs/data/pairs.txt"
    growing = Growing(spec, data, 4, {"hidden": 8, "embed": 8, "vocabulary": 9})
    made = growing.grown(0, 4)
    sizes = np.bincount(made.instances.kind, minlength=4).tolist()
    of = made.instances.schema.kinds.index
    assert sizes[of("step")] == sizes[of("target")] > 20
    assert growing.nodes(made) == 2 * sizes[of("step")]
    with growing.without_kernels():
        again = growing.grown(0, 4)  # memory holds what the kernels have computed
    assert again.instances.fields["next"].tolist() == made.instances.fields["next"].tolist()
    assert growing.seconds(0, 4) > 0


def test_what_is_told(spec: Path, root: Path) -> None:
    found = overhead(spec, root / "specs/data/pairs.txt", 3)
    one, many = found["rows"]
    for row in (one, many):
        assert row["rounds"] * found["round"] + row["nodes"] * found["node"] == pytest.approx(row["seconds"])
    scores = score_seconds(40, 3)
    assert scores.keys() == {"argmax", "best", "softmax"} and min(scores.values()) > 0
    row = decoding(None, spec, root / "specs/data/pairs.txt", 8, 9, 2, 1)
    assert "torch_seconds" not in row and row["whole_seconds"] > row["seconds"] > 0
    assert row["masked_limit"] > 0 and row["limit"] > 0
    beam = decoding(None, spec.with_name("beam.yaml"), root / "specs/data/pairs.txt", 8, 9, 2, 1)
    assert beam["tokens"] == row["tokens"] and beam["whole_seconds"] > beam["seconds"] > 0


def test_whole_mini_batches_beside_what_comes_before_growth(tmp_path: Path, root: Path) -> None:
    dims = {"hidden": 8, "embed": 8, "vocabulary": 9}
    rows = whole(tmp_path, root / "specs", root / "specs/data/pairs.txt", dims, 4, 1)
    greedy, encoder = sorted(rows, key=lambda row: -int(row["nodes"]))
    assert (greedy["model"], encoder["model"]) == ("greedy", "encoder")
    assert greedy["nodes"] > encoder["nodes"] > 20
    assert all(seconds > 0 for row in rows for seconds in row["seconds"].values())


def test_sentences_go_on_to_their_ends() -> None:
    assert live([3, 1, 3]) == [3, 2, 2]


def test_pytorch_decides_the_same(spec: Path, root: Path) -> None:
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    for name in ("greedy.yaml", "beam.yaml"):
        row = decoding(torch, spec.with_name(name), root / "specs/data/pairs.txt", 8, 9, 8, 1)
        assert row["torch_seconds"] > 0
    assert parsing(torch, root / "specs", root / "specs/data/tags.txt", 8, 1)["torch_seconds"] > 0


def test_loops_of_acrobats_have_20_to_40_turns(tmp_path: Path, root: Path) -> None:
    (tmp_path / "nested.yaml").write_text(spec_text(root / "specs", "nested"))
    workload = opened(tmp_path / "nested.yaml", hidden=2, limit=3, allow_outside=True)
    made = grown(workload, ready(workload, "cpu", init_params(workload.network, 0), 1))
    instances = made.instances
    turn, inner = (instances.schema.kinds.index(name) for name in ("turn", "inner"))
    turns = [int((part == turn).sum()) for part in np.split(instances.kind, instances.start[1:-1])]
    of = instances.links["of"].target[instances.kind == inner]
    inside = np.unique(of, return_counts=True)[1]
    assert 20 <= min(turns) < max(turns) <= 40 and set(made.cut) <= {"turn"} and len(inside) == sum(turns)
    assert inside.min() >= 20 and inside.max() == 40 and len(set(inside.tolist())) > 9


def test_acrobats_models_are_timed(tmp_path: Path, root: Path) -> None:
    tags = root / "specs/data/tags.txt"
    sentences(tags, tmp_path / "long.txt", 2)
    assert {len(line.split()) for line in (tmp_path / "long.txt").read_text().splitlines()} == {WORDS}
    for name, dims in (("birnn", {"hidden": 3}), ("berxit", {"hidden": 4, "heads": 2, "inner": 4})):
        (tmp_path / f"{name}.yaml").write_text(spec_text(root / "specs", name, 2))
        data = tmp_path / "long.txt"
        found = timed(tmp_path / f"{name}.yaml", data, dims, 2, 0)
        assert found["seconds"] > 0
        layers = {"birnn": 3 * 2 * WORDS, "berxit": 2 * WORDS + 2}[name]
        assert found["nodes"] >= layers
    assert {len(rows) for rows in PUBLISHED.values()} == {len(CONFIGURATIONS)}
