"""The bench of growing models: what it times is what grew; PyTorch by hand decides the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from abw.bench.growth.growing import BEAM, GREEDY, Growing
from abw.bench.growth.limits import live


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


def test_sentences_go_on_to_their_ends() -> None:
    assert live([3, 1, 3]) == [3, 2, 2]
