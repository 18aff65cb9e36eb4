"""Fields as arrays beside JSON lines: those that stood on the lines, read in whatever pieces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import abw
from abw.core.base.errors import AbwError
from abw.core.data.feed import open_feed
from abw.core.data.read import chunks, read
from abw.core.data.readers.jsonl import schema_of_json
from tests.core.data import oracle

SPEC = """
model: beside
data: {format: json, path: graphs.jsonl, beside: SUFFIX, batch: 2}
types: {a: {per: atom, cell: cell.yaml, inputs: {p: place, q: charge or zeros}}}
outputs: {y: a.y}
"""
CELL = """
cell: cell
inputs: {p: 3, q: 1}
params: {P: [2, 3], Q: [2, 1]}
equations: y = tanh(P @ p + Q @ q)
outputs: {y: y}
"""


@pytest.fixture(params=[".npz", ".safetensors"])
def suffix(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A file of graphs with arrays beside it, and `lines.jsonl` with all of it on its lines."""
    rng = np.random.default_rng(3)
    kinds = [["atom", "bond", "atom"][: 1 + i % 3] for i in range(9)]
    counts = {kind: sum(row.count(kind) for row in kinds) for kind in ("atom", "bond")}
    arrays: dict[str, Any] = {
        "atom.place": rng.normal(size=(counts["atom"], 3)).astype(np.float32),
        "bond.place": rng.normal(size=(counts["bond"], 3)).astype(np.float32),
        "atom.charge": rng.integers(-3, 3, counts["atom"]),
    }
    save(tmp_path / f"graphs{request.param}", arrays)
    used = dict.fromkeys(counts, 0)
    short, whole = [], []
    for row in kinds:
        vertices = []
        for kind in row:
            at, used[kind] = used[kind], used[kind] + 1
            fields: dict[str, Any] = {"place": arrays[f"{kind}.place"][at].tolist()}
            if kind == "atom":
                fields["charge"] = float(arrays["atom.charge"][at])
            vertices.append({"kind": kind, **fields})
        short.append({"vertices": [{"kind": kind} for kind in row]})
        whole.append({"vertices": vertices})
    for name, lines in (("graphs", short), ("lines", whole)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(request.param)


def save(path: Path, arrays: dict[str, Any]) -> None:
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    else:
        save_file(arrays, path)


def test_arrays_are_as_fields_on_the_lines(suffix: str, tmp_path: Path) -> None:
    data, lines = tmp_path / "graphs.jsonl", tmp_path / "lines.jsonl"
    expected = oracle.plain(read(lines, "json"))
    whole = read(data, "json", beside=suffix)
    oracle.check_arrays(whole)
    assert oracle.plain(whole) == expected
    assert oracle.plain(read(data, "json", skip=4, limit=3, beside=suffix)) == expected[4:7]
    schema = schema_of_json(data, suffix)
    assert schema.fields["place"].size == 3 and schema.fields["charge"].kinds == {"atom"}
    for size in (1, 2, 4, 20):
        with open_feed(data) as feed:
            found = [c.instances for c in chunks(feed, "json", size, beside=suffix, schema=schema)]
        assert [one for part in found for one in oracle.plain(part)] == expected


def test_a_model_runs_on_them(suffix: str, tmp_path: Path) -> None:
    (tmp_path / "cell.yaml").write_text(CELL)
    values = []
    for name, told in (("graphs", f"beside: {suffix}, "), ("lines", "")):
        spec = tmp_path / f"{name}.yaml"
        spec.write_text(SPEC.replace("graphs", name).replace("beside: SUFFIX, ", told))
        model = abw.load(spec, policy="agenda")
        values.append(model(tmp_path / f"{name}.jsonl")["y"].values)
        streamed = [part["y"].values for part in model.stream(tmp_path / f"{name}.jsonl")]
        np.testing.assert_allclose(np.concatenate(streamed), values[-1], rtol=1e-6)
    np.testing.assert_array_equal(*values)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"atom.place": np.zeros((3, 2))}, "atom.place has 3 rows, and the data 12 vertices of kind 'atom'"),
        ({"place": np.zeros((3, 2))}, r"'place' is float64 \[3, 2\]"),
        ({"atom.place": np.zeros((3, 2, 2))}, r"'atom.place' is float64 \[3, 2, 2\]"),
        ({"atom.place": np.zeros((3, 2)), "bond.place": np.zeros(3)}, "field 'place' has several sizes"),
        ({"atom.place": np.array(["a"])}, "'atom.place' is <U1"),
    ],
)
def test_arrays_of_another_form(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    (tmp_path / "graphs.jsonl").write_text('{"vertices": [{"kind": "atom"}]}\n' * 12)
    save(tmp_path / "graphs.npz", arrays)
    with pytest.raises(AbwError, match=message):
        schema_of_json(tmp_path / "graphs.jsonl", ".npz")


def test_what_a_row_lacks_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "graphs.jsonl"
    path.write_text(
        '\n{"vertices": [{"kind": "atom"}]}\n{"vertices": [{"kind": "atom"}, {"kind": "atom"}]}\n'
    )
    save(tmp_path / "graphs.npz", {"atom.x": np.array([1, np.nan, 2])})
    with pytest.raises(AbwError, match=r"row 1 of atom.x in .*graphs.npz is not finite \(.*graphs.jsonl:3\)"):
        read(path, "json", beside=".npz")
    save(tmp_path / "graphs.npz", {"atom.x": np.array([1.0, 2])})
    with pytest.raises(AbwError, match=r"row 2 of atom.x in .* is missing \(.*:3\)"):
        read(path, "json", beside=".npz")
    path.write_text('{"vertices": [{"kind": "atom", "x": 0.5}]}\n')
    with pytest.raises(AbwError, match=r"field 'x' is in .* and in the file beside it"):
        read(path, "json", beside=".npz")
    with pytest.raises(AbwError, match="no such file"):
        read(path, "json", beside=".safetensors")
    with open_feed(path) as feed, pytest.raises(AbwError, match="instances cannot be left out"):
        list(chunks(feed, "json", 1, beside=".npz", skip_bad=True))
    feed.size = None
    with pytest.raises(AbwError, match="a pipe has no file"):
        list(chunks(feed, "json", 1, beside=".npz"))
