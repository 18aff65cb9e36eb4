"""Trained weights from the command line."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Abw

SPEC = "specs/torch-bilstm.yaml"
FILE = "tests/golden/torch/torch-bilstm.npz"
SIZES = ("--set", "hidden=5", "--set", "embed=6")


def test_a_run_with_weights(abw: Abw, root: Path) -> None:
    plain = abw("run", SPEC, *SIZES, "--limit", "12", "-q", "--json").json()
    assert plain["weights"] is None and plain["training"]["fresh"]
    assert plain["random_weights"] and plain["mapped_weights"]
    done = abw("run", SPEC, *SIZES, "--limit", "12", "--weights", FILE, "--verify", "-q", "--json")
    report = done.json()
    assert report["weights"] == {
        "path": FILE,
        "format": "npz",
        "sha256": hashlib.sha256((root / FILE).read_bytes()).hexdigest(),
        "converted": {},
    }
    assert not report["random_weights"] and report["mapped_weights"]
    assert not report["training"]["fresh"]  # the policy that was learned without weights
    with (
        np.load(Path(report["path"]) / "outputs.npz") as kept,
        np.load(root / "tests/golden/torch/torch-bilstm-expected.npz") as expected,
    ):
        np.testing.assert_allclose(kept["tags"], expected["arr_0"], rtol=0, atol=1e-5)
    assert (Path(report["path"]) / "spec/data/words.txt").is_file()
    assert abw("viz").code == 0


def test_a_run_says_that_its_weights_are_random(abw: Abw) -> None:
    said = "weights are random: the spec has a map of weights but no file (--weights FILE)"
    few = (*SIZES, "--limit", "2", "--policy", "agenda", "--no-keep")
    assert said in " ".join(abw("run", SPEC, *few).out.split())
    assert "random" not in abw("run", SPEC, *few, "--weights", FILE).out
    assert "random" not in abw("run", "specs/treelstm.yaml", "--limit", "2", "--no-keep").out


def test_a_run_says_what_was_converted(abw: Abw, root: Path, tmp_path: Path) -> None:
    with np.load(root / FILE) as file:
        state = {name: file[name] for name in file.files}
    state["out.bias"] = state["out.bias"].astype(np.float64)
    np.savez(tmp_path / "w.npz", **state)
    done = abw(
        "run", SPEC, *SIZES, "--limit", "2", "--policy", "agenda", "--weights", str(tmp_path / "w.npz")
    )
    assert done.code == 0
    assert "w.npz (1 of float64, made float32)" in " ".join(done.out.split())


def test_a_spec_names_its_weights(abw: Abw, root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "specs", tmp_path / "specs")
    spec = tmp_path / "specs/torch-bilstm.yaml"
    spec.write_text(spec.read_text().replace("weights:\n", "weights:\n  file: w.npz\n"))
    missing = abw("run", str(spec), *SIZES)
    assert missing.code == 1 and f"{spec}:22:9: " in missing.err and "w.npz: no such file" in missing.err
    given = abw("run", str(spec), *SIZES, "--weights", "v.npz")
    assert given.err.startswith("error: v.npz: no such file")
    shutil.copy(root / FILE, tmp_path / "specs/w.npz")
    report = abw("check", str(spec), *SIZES, "--json").json()
    assert report["weights"] == str(tmp_path / "specs/w.npz")
    bad = abw("check", str(spec))  # hidden and embed are 64 there
    assert bad.code == 1
    assert f"{spec}:23:" not in bad.err and f"{spec}:24:12: words: wants [127, 64]" in bad.err


def test_words_without_a_vocabulary_have_no_place_among_weights(abw: Abw, root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "specs", tmp_path / "specs")
    spec = tmp_path / "specs/torch-bilstm.yaml"
    spec.write_text(spec.read_text().replace("vocab: data/words.txt, unknown: <unk>", "rows: 127"))
    done = abw("run", str(spec), *SIZES, "--weights", FILE, "-q")
    assert done.code == 1 and "has weights, but no vocabulary" in done.err
    assert f"{spec}:7:" in done.err and "vocab: words.txt" in done.err


@pytest.mark.parametrize("json", [False, True])
def test_what_a_spec_needs(abw: Abw, json: bool) -> None:
    done = abw("weights", SPEC, *SIZES, *(["--json"] if json else []))
    assert done.code == 0
    if json:
        report = done.json()
        assert (report["file"], report["fits"], report["numbers"]) == (None, None, 2061)
        assert report["needs"][1] == {
            "name": "fwd1.weight_ih",
            "shape": [20, 6],
            "used_by": ["fwd1"],
            "from": "lstm.weight_ih_l0",
            "mapped": True,
            "state": None,
            "fault": None,
        }
    else:
        assert "fwd1.weight_ih" in done.out and "lstm.weight_ih_l0" in done.out


def test_what_a_file_has(abw: Abw) -> None:
    done = abw("weights", SPEC, FILE, *SIZES, "--json")
    report = done.json()
    assert done.code == 0 and report["fits"] is True and report["problems"] == []
    assert {need["state"] for need in report["needs"]} == {"ok"}
    tensors = {t["name"]: t for t in report["file"]["tensors"]}
    assert tensors["out.weight"] == {
        "name": "out.weight",
        "shape": [9, 10],
        "dtype": "float32",
        "used_for": ["tag.Wl", "tag.Wr"],
        "ignored": False,
    }


def test_a_file_that_does_not_fit(abw: Abw) -> None:
    other = "tests/golden/torch/torch-gru.npz"
    done = abw("weights", SPEC, other, *SIZES)
    assert done.code == 1
    for part in ("missing", "misshapen", "ok", "does not use", "has no 'lstm.weight_ih_l0'"):
        assert part in done.out
    report = abw("weights", SPEC, other, *SIZES, "--json").json()
    assert report["fits"] is False and len(report["problems"]) == 6
    states = {need["name"]: need["state"] for need in report["needs"]}
    assert (states["words"], states["fwd1.bias_hh"], states["tag.Wr"]) == ("ok", "missing", "misshapen")
    run = abw("run", SPEC, "--weights", other, *SIZES, "-q")
    assert run.code == 1
    for problem in report["problems"]:
        assert problem.split("\n")[0] in run.err
