"""Outputs as answers: labels, probabilities and fields, as lines, as arrays and in Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import abw
from abw.core.base.errors import SpecError
from abw.core.ir.model import Answer
from abw.core.run.columns import answered, labels, probabilities
from abw.core.run.pipeline import RunOptions, run
from abw.core.run.workload import open_model
from abw.core.spec.load import Overrides
from abw.core.store.outputs import Column, Output

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
floats = st.floats(-80, 80, width=32)


@given(
    arrays(np.float32, st.tuples(st.integers(0, 4), st.integers(1, 5)), elements=floats), st.integers(1, 5)
)
def test_labels_and_probabilities(values: np.ndarray, top: int) -> None:
    count = min(top, values.shape[1])
    found = labels(values, count)
    for row, best in zip(values.tolist(), found.tolist(), strict=True):
        assert best == sorted(range(len(row)), key=lambda n: (-row[n], n))[:count]
    shares = probabilities(values)
    for row, share in zip(values.astype(np.float64), shares, strict=True):
        np.testing.assert_allclose(share, np.exp(row) / np.exp(row).sum(), rtol=1e-5, atol=1e-38)
    most, theirs = answered(values, Answer("label", count))
    assert theirs is not None and most.tolist() == found.tolist()
    np.testing.assert_array_equal(theirs, np.take_along_axis(shares, found, axis=1))


def test_what_is_no_number_has_no_label() -> None:
    values = np.array([[1, np.nan], [2, 3]], np.float32)
    assert labels(values, 2).tolist() == [[-1, -1], [1, 0]]
    assert np.isnan(probabilities(values)[0]).all()


@pytest.mark.parametrize("words", [None, ("u", "v")])
def test_in_lines_no_label_is_null(words: tuple[str, ...] | None) -> None:
    values = np.array([-1, 1], np.int32)
    column = Column(values, np.array([2]), np.array([0, 1], np.int32))
    assert Output("y", (), False, True, words).shown(column, 0, 2) == [None, words[1] if words else 1]


@pytest.fixture
def spec(root: Path, tmp_path: Path) -> Path:
    path = tmp_path / "tagger.yaml"
    text = (
        (root / "specs/words.yaml").read_text().replace("tags: 9", "tags: 5").replace("batch: 64", "batch: 3")
    )
    text = text.replace(": cells/", f": {root}/specs/cells/").replace(": data/", f": {root}/specs/data/")
    (tmp_path / "tags.txt").write_text("\n".join(TAGS) + "\n")
    path.write_text(text.replace("outputs: {tags: tag.y}", "outputs: {tags: OUTPUT, raw: tag.y}"))
    return path


def written(spec: Path, output: str) -> Path:
    path = spec.with_name("written.yaml")
    path.write_text(spec.read_text().replace("OUTPUT", output))
    return path


def ran(spec: Path, target: Path) -> None:
    text = spec.with_name("text.txt")
    text.write_text("Anna sees it.\nYes\n")
    overrides = Overrides(dims={"hidden": 4}, data=text, allow_outside=True)
    run(spec, overrides, RunOptions(policy="agenda", output=target))


def lines(spec: Path, tmp_path: Path) -> list[dict[str, Any]]:
    ran(spec, tmp_path / "out.jsonl")
    return [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]


def test_labels_with_names_and_words(spec: Path, tmp_path: Path) -> None:
    path = written(spec, "{of: tag.y, as: label, names: tags.txt, fields: [word, index]}")
    for line, words in zip(lines(path, tmp_path), (["Anna", "sees", "it", "."], ["Yes"]), strict=True):
        best = np.argmax(line["outputs"]["raw"], axis=1)
        assert line["outputs"]["tags"] == [TAGS[n] for n in best]
        assert line["fields"] == {"tags": {"word": words, "index": list(range(len(words)))}}
    ran(path, tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as kept:
        assert kept["tags"].dtype == np.int32
        assert kept["tags"].tolist() == np.argmax(kept["raw"], axis=1).tolist()
    model = abw.load(path, dims={"hidden": 4}, allow_outside=True, policy="agenda")
    outputs = model(["Anna sees it.", "Yes"])
    assert outputs["tags"].names == tuple(TAGS)
    assert spec.with_name("tags.txt") in model.spec.files
    assert outputs["tags"][0].tolist() == np.argmax(outputs["raw"][0], axis=1).tolist()


def test_the_most_probable_ones(spec: Path, tmp_path: Path) -> None:
    path = written(spec, f"{{of: tag.y, top: 2, names: {json.dumps(TAGS)}}}")
    for line in lines(path, tmp_path):
        for raw, best in zip(line["outputs"]["raw"], line["outputs"]["tags"], strict=True):
            shares = np.exp(raw) / np.exp(raw).sum()
            order = np.argsort(-shares)[:2]
            assert [name for name, _ in best] == [TAGS[n] for n in order]
            np.testing.assert_allclose([share for _, share in best], shares[order], rtol=1e-5)
        assert "fields" not in line
    ran(path, tmp_path / "out.npz")
    model = abw.load(path, dims={"hidden": 4}, allow_outside=True, policy="agenda")
    outputs = model(["Anna sees it.", "Yes"])["tags"]
    with np.load(tmp_path / "out.npz") as kept:
        np.testing.assert_array_equal(kept["tags"], outputs.values)
        assert outputs.probability is not None
        np.testing.assert_allclose(kept["tags.probability"], outputs.probability, rtol=1e-5)


def test_probabilities_of_one_value_an_instance(root: Path, tmp_path: Path) -> None:
    text = (root / "specs/rings.yaml").read_text().replace("out: 1}", "out: 3}")
    text = text.replace(": cells/", f": {root}/specs/cells/").replace(": data/", f": {root}/specs/data/")
    values = []
    for output in ("energy.y", "{of: energy.y, as: probabilities}", "{of: energy.y, as: label}"):
        (tmp_path / "spec.yaml").write_text(text.replace("energy: energy.y", f"energy: {output}"))
        overrides = Overrides(dims={"hidden": 4}, allow_outside=True, limit=4)
        for target in ("out.jsonl", "out.npz"):
            run(tmp_path / "spec.yaml", overrides, RunOptions(policy="agenda", output=tmp_path / target))
        written_lines = (tmp_path / "out.jsonl").read_text().splitlines()
        found = [json.loads(line)["outputs"]["energy"] for line in written_lines]
        with np.load(tmp_path / "out.npz") as kept:
            np.testing.assert_allclose(kept["energy"], found, rtol=1e-6)
        values.append(np.array(found))
    raw, shares, best = values
    np.testing.assert_allclose(shares, np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True), rtol=1e-5)
    assert best.tolist() == np.argmax(raw, axis=1).tolist()


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("{as: label}", "has no 'of'|needs 'of'|'of'"),
        ("{of: tag.y, as: lable}", "'lable' is not a form of output"),
        ("{of: tag.y, as: probabilities, top: 2}", "'top' are labels"),
        ("{of: tag.y, top: 6}", "has 5 labels, not 6"),
        ("{of: tag.y, as: label, names: [a, b]}", "has 5 labels, and 2 names"),
        ("{of: tag.y, names: tags.txt}", "names are those of labels"),
        ("{of: tag.y, as: label, names: no.txt}", "missing vocabulary"),
        ("{of: tag.y, as: label, fields: [wrod]}", "token has no field 'wrod'"),
        ("{of: tag.q, as: label}", "type 'tag' has no output 'q'"),
    ],
)
def test_mistakes(spec: Path, output: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        open_model(written(spec, output), Overrides(allow_outside=True))
