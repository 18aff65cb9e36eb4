"""A map proposed for weights that a spec does not map: the right one, without what is not clear."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from abw.core.base.errors import SpecError
from abw.core.exec.trained import load_weights
from abw.core.run.workload import open_model
from abw.core.spec.load import Overrides
from tests.core.exec.test_weights import SIZES, file_of

CHILDSUM = """\
weights:
  map:
    words: embed.weight
    node: {W: iou_x.weight, U: iou_h.weight, b: iou_x.bias}
    forget: {W: f_x.weight, U: f_h.weight, b: f_x.bias}
    output: {W: out.weight, b: out.bias}"""


def unmapped(root: Path, folder: Path, name: str) -> Path:
    """A shipped spec without its section `weights`."""
    shutil.copytree(root / "specs", folder / "specs")
    spec = folder / f"specs/{name}.yaml"
    spec.write_text(spec.read_text().partition("\nweights:")[0] + "\n")
    return spec


def refused(spec: Path, file: Path, dims: dict[str, int] = SIZES) -> SpecError:
    with pytest.raises(SpecError) as error:
        load_weights(open_model(spec, Overrides(dims=dims, weights=file)))
    return error.value


def test_the_map_of_a_model_is_found(root: Path, tmp_path: Path) -> None:
    spec = unmapped(root, tmp_path, "torch-childsum")
    file = file_of(root, "torch-childsum")
    error = refused(spec, file)
    assert str(error).count("weights:") == 1 and error.problems[-1].hint.endswith(CHILDSUM)
    assert "ignore" not in str(error)
    # pasted, it is the map
    spec.write_text(spec.read_text() + CHILDSUM + "\n")
    found = load_weights(open_model(spec, Overrides(dims=SIZES, weights=file)))
    wanted = load_weights(open_model(root / "specs/torch-childsum.yaml", Overrides(dims=SIZES, weights=file)))
    assert found and wanted
    for name, values in wanted.values.items():
        np.testing.assert_array_equal(found.values[name], values)


def test_the_section_is_pasted_over_one_that_names_the_file(root: Path, tmp_path: Path) -> None:
    spec = unmapped(root, tmp_path, "torch-childsum")
    text = spec.read_text()
    shutil.copy(file_of(root, "torch-childsum"), spec.parent / "w.npz")
    for section in ("weights: w.npz", "weights: {file: w.npz, ignore: ['old.*', none]}"):
        spec.write_text(f"{text}{section}\n")
        with pytest.raises(SpecError) as error:
            load_weights(open_model(spec, Overrides(dims=SIZES)))
        hint = error.value.problems[-1].hint
        spec.write_text(f"{text}{hint[hint.index('weights:') :]}\n")
        model = open_model(spec, Overrides(dims=SIZES))
        assert load_weights(model) is not None
        assert model.weights.ignore == (("old.*", "none") if "ignore" in section else ())


def test_recurrent_layers_are_told_apart_by_names(root: Path, tmp_path: Path) -> None:
    error = refused(unmapped(root, tmp_path, "torch-lstm"), file_of(root, "torch-lstm"))
    line = next(line for line in error.problems[-1].hint.splitlines() if "lstm:" in line)
    assert line.split(": ", 1)[1] == (
        "{weight_ih: lstm.weight_ih_l0, weight_hh: lstm.weight_hh_l0, "
        "bias_ih: lstm.bias_ih_l0, bias_hh: lstm.bias_hh_l0}"
    )


def test_what_could_be_several_is_left_out(root: Path, tmp_path: Path) -> None:
    """Two directions, which shapes and names do not tell apart."""
    error = refused(unmapped(root, tmp_path, "torch-bilstm"), file_of(root, "torch-bilstm"))
    hint = error.problems[-1].hint
    assert "words: embed.weight" in hint and "fwd1" not in hint
    assert "ignore: ['lstm" not in str(error)  # what fits something is not to be ignored


MODEL = """
model: few
dims: {hidden: 3, embed: 2}
data: {format: words, path: few.txt}
tables: {w: {dim: embed, rows: 4}}
cells:
  c:
    dims: [hidden, embed]
    inputs: {x: embed}
    params: {W: [hidden, embed], b: hidden}
    equations: "y = W @ x + b"
    outputs: {y: y}
types:
  t: {per: token, cell: c, inputs: {x: "w[index]"}}
outputs: {y: t.y}
"""


def test_an_embedding_of_other_rows_and_a_transpose_are_proposed(tmp_path: Path) -> None:
    (tmp_path / "few.yaml").write_text(MODEL)
    (tmp_path / "few.txt").write_text("a b c\n")
    tensors = {"emb.weight": (9, 2), "lin.kernel": (2, 3), "lin.bias": (3,), "step": ()}
    np.savez(tmp_path / "w.npz", **{name: np.ones(shape, np.float32) for name, shape in tensors.items()})  # type: ignore[arg-type]
    error = refused(tmp_path / "few.yaml", tmp_path / "w.npz", {})
    lines = error.problems[-1].hint.splitlines()
    assert "    w: emb.weight  # with tables: {w: {rows: 9}}" in lines
    assert "    t: {W: 'transpose(lin.kernel)', b: lin.bias}" in lines
    (left,) = [problem for problem in error.problems if "which the model does not use" in problem.message]
    assert "ignore: ['step']" in left.hint
