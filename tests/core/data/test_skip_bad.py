"""What is left out changes nothing for the others: their bits are those of a file in which all is good.

ABW_CUTS says how many random cuts of the pipe are tried for each format.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from abw.core.api import LoadedModel, load
from abw.core.data.derive import field
from abw.core.data.feed import Feed, open_feed
from abw.core.data.instances import Instances
from abw.core.data.read import chunks

CUTS = int(os.environ.get("ABW_CUTS", "12"))
SPECS = {
    "trees": (
        "treelstm-2type",
        "trees.txt",
        ["(3 (2 It)", "(3 It works)", "x", "(2 )", "()", "(2 \xff)", "\x00"],
    ),
    "tags": ("bilstm", "tags.txt", ["It works|O", "a| b|O", "|O", "a|\xff", "\x01 "]),
    "pairs": ("lstm-nmt", "pairs.txt", ["<s> a </s>", "a ||| b ||| c", "\xff", " \x1f"]),
    "json": (
        "dag",
        "expressions.jsonl",
        ["{", '{"vertices": []}', '{"id": "\\ud800", "vertices": [{}]}', "\xff"],
    ),
    "lattice": (
        "lattice",
        "lattice.txt",
        ["2\n0 0\n0\n1 9 5", "3\n0 0 0\n0\n1 9 5\n1 1 5", "2\n0\n0\n0", "0"],
    ),
}


class Cut(Feed):
    """A pipe that gives its parts one by one, and has nothing more for now behind some of them."""

    def __init__(self, content: bytes, path: Path, rng: random.Random) -> None:
        end, begin = os.pipe()
        super().__init__(path, end)
        os.close(begin)
        os.close(end)
        cuts = sorted(rng.randrange(len(content) + 1) for _ in range(rng.randrange(12)))
        self.parts = [content[a:b] for a, b in zip([0, *cuts], [*cuts, len(content)], strict=True) if a < b]
        self.rng = rng

    def _ready(self, seconds: float) -> bool:
        return self.rng.random() < 0.3

    def _read(self, most: int) -> bytes:
        self._ended = not self.parts
        return self.parts.pop(0) if self.parts else b""


@contextmanager
def opened(path: Path, rng: random.Random | None) -> Iterator[Feed]:
    if rng is None:
        with open_feed(path) as feed:
            yield feed
    else:
        yield Cut(path.read_bytes(), path, rng)


def entries(root: Path, format: str) -> list[str]:
    """Instances of a shipped file, as texts."""
    text = (root / "specs/data" / SPECS[format][1]).read_text("utf-8")
    if format != "lattice":
        return text.splitlines()[:12]
    lines = [line for line in text.splitlines()[1:] if line.strip()]
    found: list[str] = []
    while lines and len(found) < 12:
        size = int(lines[0]) + 2
        found.append("\n".join(lines[:size]))
        lines = lines[size:]
    return found


def written(path: Path, texts: Sequence[str], format: str) -> Path:
    head = f"{len(texts)}\n" if format == "lattice" else ""
    path.write_bytes(
        "".join(text + "\n" for text in [head.rstrip(), *texts] if text)
        .encode()
        .replace(b"\xc3\xbf", b"\xff")
    )
    return path


def told(model: LoadedModel, instances: Instances) -> dict[int, list[bytes]]:
    """By its number, all that an instance gives: its coins and its outputs, as bits."""
    coin = field(instances, "coin", 3)
    outputs = model(instances)
    return {
        int(number): [
            coin[start:end].tobytes(),
            *(np.asarray(outputs[name][i]).tobytes() for name in outputs),
        ]
        for i, (number, start, end) in enumerate(
            zip(instances.numbers, instances.start[:-1], instances.start[1:], strict=True)
        )
    }


@pytest.mark.parametrize("format", SPECS)
def test_the_good_have_the_bits_of_a_file_that_is_all_good(
    format: str, root: Path, tmp_path: Path, kernels_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ABW_HOME", str(kernels_home))
    spec, _, wrong = SPECS[format]
    model = load(root / f"specs/{spec}.yaml", dims={"hidden": 8}, policy="agenda", batch=5)
    good = entries(root, format)
    schema = model.spec.schema
    with open_feed(written(tmp_path / "good", good, format)) as feed:
        (whole,) = chunks(feed, format, 100, schema=schema)
    expected = told(model, whole.instances)
    assert list(expected) == list(range(len(good)))
    for seed in range(CUTS):
        rng = random.Random(seed)
        bad = {i for i in range(len(good)) if rng.random() < 0.4}
        texts = [rng.choice(wrong) if i in bad else text for i, text in enumerate(good)]
        blank = [f"{text}\n \n" if rng.random() < 0.2 and format != "lattice" else text for text in texts]
        path = written(tmp_path / "bad", blank, format)
        found: dict[int, list[bytes]] = {}
        left_out = 0
        with opened(path, rng if seed % 4 else None) as feed:
            for chunk in chunks(feed, format, rng.choice((1, 3, 100)), schema=schema, skip_bad=True):
                left_out += len(chunk.bad)
                if len(chunk.instances):
                    found |= told(model, chunk.instances)
        assert left_out == len(bad)
        assert found == {number: bits for number, bits in expected.items() if number not in bad}, seed
