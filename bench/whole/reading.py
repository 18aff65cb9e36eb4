"""Nanoseconds a value for reading each data format: the shipped data many times over, and molecules."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import partial
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
    with tempfile.TemporaryDirectory() as folder:
        cases = _written(specs / "data", Path(folder), instances)
        arrays, count = _arrays(instances)
        work: dict[str, Callable[[], object]] = {name: reads for name, (reads, _) in cases.items()}
        work["arrays"] = partial(Read.from_arrays, *arrays)
        for each in work.values():
            each()
        seconds = interleaved(work, runs)
    values = {**{name: n for name, (_, n) in cases.items()}, "arrays": count}
    for name, taken in seconds.items():
        yield Row("", data=name, values=values[name], value_ns=1e9 * taken / values[name])


def _written(data: Path, folder: Path, instances: int) -> dict[str, tuple[Callable[[], Read], int]]:
    """What reads each case, and how many values that is."""
    cases: dict[str, tuple[Callable[[], Read], int]] = {}

    def case(name: str, format: str, lines: list[str], values: int, tokens: str = "") -> None:
        file = folder / name.replace(" ", "-")
        file.write_text("\n".join(lines) + "\n", "utf-8")
        cases[name] = partial(read, file, format, tokens=tokens), values

    def some(name: str) -> list[str]:
        lines = (data / name).read_text("utf-8").splitlines()
        return [lines[i % len(lines)] for i in range(instances)]

    trees = some("trees.txt")
    case("trees", "trees", trees, sum(len(line.split()) for line in trees))
    pairs = some("pairs.txt")
    case("pairs", "pairs", pairs, sum(len(line.split()) - 1 for line in pairs))
    tags = some("tags.txt")
    sentences = [[token.rsplit("|", 1) for token in line.split()] for line in tags]
    tokens = sum(map(len, sentences))
    case("tags", "tags", tags, 2 * tokens)
    words = [" ".join(word for word, _ in sentence) for sentence in sentences]
    case("words", "words", words, tokens)
    case("words by a pattern", "words", words, tokens, tokens=PATTERN)
    case("json", "json", [_sentence(s) for s in sentences], sum(7 * len(s) - 4 for s in sentences))
    drawn = np.random.default_rng(0)
    molecules = [_molecule(drawn, i) for i in range(instances)]
    case("molecules", "json", molecules, instances * ATOMS * 8)
    return cases


def _sentence(tokens: list[list[str]]) -> str:
    vertices = [{"kind": "token", "word": word, "tag": tag} for word, tag in tokens]
    pairs = [[i, i + 1] for i in range(len(tokens) - 1)]
    return json.dumps({"vertices": vertices, "links": {"next": pairs, "prev": [p[::-1] for p in pairs]}})


def _molecule(drawn: np.random.Generator, number: int) -> str:
    vertices = [
        {"kind": "atom", "element": e, "charge": c, "position": p}
        for e, c, p in zip(
            drawn.integers(1, 90, ATOMS).tolist(),
            drawn.normal(size=ATOMS).tolist(),
            drawn.normal(size=(ATOMS, 3)).tolist(),
            strict=True,
        )
    ]
    bonds = [[a, (a + 1) % ATOMS] for a in range(ATOMS)]
    return json.dumps({"id": f"m{number}", "vertices": vertices, "links": {"bond": bonds}})


def _arrays(instances: int) -> tuple[tuple[Any, Any], int]:
    drawn = np.random.default_rng(0)
    count = instances * ATOMS
    atoms = {
        "instance": np.repeat(np.arange(instances), ATOMS),
        "element": drawn.integers(1, 90, count),
        "charge": drawn.normal(size=count),
        "position": drawn.normal(size=(count, 3)),
    }
    first = np.arange(count) // ATOMS * ATOMS
    bonds = np.stack([np.arange(count), first + (np.arange(count) - first + 1) % ATOMS])
    return ({"atom": atoms}, {"bond": bonds}), count * 8
