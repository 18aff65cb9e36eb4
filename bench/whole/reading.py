"""Nanoseconds a value for reading each data format: the shipped data many times over, and molecules."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

from abw.bench.options import SPECS, Instances, Runs, SpecsDir
from abw.bench.rows import Row, Rows
from abw.bench.timing import interleaved
from abw.core.data.instances import Instances as Read
from abw.core.data.read import read

ATOMS = 20
PATTERN = r"\w+|[^\w\s]"


def reading(specs: SpecsDir = SPECS, instances: Instances = 5000, runs: Runs = 5) -> Rows:
    """Time the reading of all formats in nanoseconds a value, on one thread.

    A value is a word, a tag, a label or a number; in JSON also a vertex's kind and each end of a link.
    `json` has the sentences of `tags` with links both ways; `molecules` are rings of atoms with an
    integer and four floats; `arrays` are these as NumPy arrays.
    """

    def shipped(name: str) -> list[str]:
        lines = (specs / "data" / name).read_text("utf-8").splitlines()
        return list(islice(cycle(lines), instances))

    trees, pairs, tags = (shipped(f"{name}.txt") for name in ("trees", "pairs", "tags"))
    sentences = [[token.rsplit("|", 1) for token in line.split()] for line in tags]
    words = [" ".join(word for word, _ in sentence) for sentence in sentences]
    tokens = sum(map(len, sentences))
    atoms, bonds = _molecules(instances)
    # Lines, the format, the values in all of them, what makes words of a sentence.
    files = {
        "trees": (trees, "trees", sum(len(line.split()) for line in trees), ""),
        "pairs": (pairs, "pairs", sum(len(line.split()) - 1 for line in pairs), ""),
        "tags": (tags, "tags", 2 * tokens, ""),
        "words": (words, "words", tokens, ""),
        "words by a pattern": (words, "words", tokens, PATTERN),
        "json": ([_sentence(s) for s in sentences], "json", 7 * tokens - 4 * instances, ""),
        "molecules": (_as_json(atoms, bonds), "json", instances * ATOMS * 8, ""),
    }
    work: dict[str, Callable[[], object]] = {
        "arrays": partial(Read.from_arrays, {"atom": atoms}, {"bond": bonds})
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, (lines, form, _, pattern) in files.items():
            file = Path(folder) / name
            file.write_text("\n".join(lines) + "\n", "utf-8")
            work[name] = partial(read, file, form, tokens=pattern)
        seconds = interleaved(work, runs, warming=1)
    values = {**{name: count for name, (_, _, count, _) in files.items()}, "arrays": instances * ATOMS * 8}
    for name, taken in seconds.items():
        yield Row("", data=name, values=values[name], value_ns=1e9 * taken / values[name])


def _sentence(tokens: list[list[str]]) -> str:
    vertices = [{"kind": "token", "word": word, "tag": tag} for word, tag in tokens]
    pairs = [[i, i + 1] for i in range(len(tokens) - 1)]
    return json.dumps({"vertices": vertices, "links": {"next": pairs, "prev": [p[::-1] for p in pairs]}})


def _molecules(instances: int) -> tuple[dict[str, Any], Any]:
    """Atoms in rings, and their bonds, as `Instances.from_arrays` takes them."""
    drawn, count = np.random.default_rng(0), instances * ATOMS
    number = np.arange(count)
    atoms = {
        "instance": number // ATOMS,
        "element": drawn.integers(1, 90, count),
        "charge": drawn.normal(size=count),
        "position": drawn.normal(size=(count, 3)),
    }
    first = number // ATOMS * ATOMS
    return atoms, np.stack([number, first + (number - first + 1) % ATOMS])


def _as_json(atoms: dict[str, Any], bonds: Any) -> list[str]:  # noqa: ANN401
    """Write atoms and bonds as lines of JSON, a molecule each."""
    fields = ("element", "charge", "position")
    columns = zip(*(atoms[name].tolist() for name in fields), strict=True)
    vertices = [{"kind": "atom", **dict(zip(fields, values, strict=True))} for values in columns]
    ring = (bonds[:, :ATOMS].T).tolist()
    return [
        json.dumps({"id": f"m{at}", "vertices": vertices[at : at + ATOMS], "links": {"bond": ring}})
        for at in range(0, len(vertices), ATOMS)
    ]
