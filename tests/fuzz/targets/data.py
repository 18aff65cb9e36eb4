"""The data formats: read whole, read with what is bad left out, brought to a model, made a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from abw.core.base.errors import AbwError
from abw.core.data.feed import open_feed
from abw.core.data.read import chunks, read
from abw.core.data.readers.jsonl import schema_of_json
from abw.core.ir.model import Model
from abw.core.run.workload import Networks, open_model, open_networks, open_workload
from abw.core.spec.load import Overrides
from tests.core.data.oracle import check_arrays
from tests.fuzz.target import ROOT, shipped, target


def _lattices(count: int) -> bytes:
    """The first sentences of the shipped file."""
    lines = [line for line in (ROOT / "specs/data/lattice.txt").read_bytes().split(b"\n") if line.strip()]
    end = 1
    for _ in range(count):
        end += int(lines[end]) + 2
    return b"%d\n" % count + b"\n".join(lines[1:end]) + b"\n"


FORMATS: dict[str, tuple[str, Callable[[], list[bytes]], Sequence[bytes]]] = {
    "trees": (
        "treelstm-2type.yaml",
        shipped("data/trees.txt", "data/nary-trees.txt", "data/fig1.txt"),
        (b"(", b")", b"(3 (2 It) (4 works))", b"()", b"(2 It"),
    ),
    "lattice": (
        "lattice.yaml",
        lambda: [_lattices(4), b"2\n2\n0 1\n0\n1 0 5\n\n1\n7\n0\n"],
        (b"0", b"\n1\n0\n0\n", b"1 0 5", b"2\n0 0\n0\n1 0 5\n"),
    ),
    "tags": ("bilstm-chars.yaml", shipped("data/tags.txt"), (b"|", b"It|O", b"||", b"a|", b"|a")),
    "pairs": ("lstm-nmt.yaml", shipped("data/pairs.txt"), (b"|||", b"<s>", b"<s> a </s> ||| <s> b </s>")),
    "words": ("words.yaml", shipped("data/sentences.txt"), (b".", b"\xe2\x80\x94", b" ", b"\n")),
    "plans": (
        "plans/bao.yaml",
        shipped("plans/data/plans.jsonl", most=3000),
        (
            b'"Plans": [{',
            b'"Node Type": "Sort"',
            b"}]}",
            b'{"Plan": {"Node Type": "Hash"}}',
            b'"children": [',
            b'"extra_info": {"Estimated Cardinality": "5"}',
            b"null",
            b"1e400",
            b'"Parent Relationship": "SubPlan"',
            b"\n[\n",
            b'{"name": "LIMIT"}',
            b"NaN",
            b"-0.0",
        ),
    ),
    "json": (
        "dag.yaml",
        shipped(
            "data/dependency.jsonl",
            "data/expressions.jsonl",
            "data/fig10.jsonl",
            "data/uneven.jsonl",
            most=2000,
        ),
        (
            b'"kind"',
            b'{"vertices": []}',
            b'"links"',
            b"[0, 1]",
            b', "links": {"root": 0, "heads": [0, 1]}',
            b"null",
            b"true",
            b'{"id": 5, "vertices": 1}',
        ),
    ),
}


@cache
def _opened(spec: str) -> tuple[Model, Networks]:
    model = open_model(ROOT / "specs" / spec, Overrides())
    return model, open_networks(model, "cell", dedup="on")


def _leaving_out(path: Path, format: str, spec: str) -> None:
    """All good instances of a file as graphs, in chunks."""
    model, networks = _opened(spec)
    with open_feed(path) as feed:
        how: dict[str, Any] = {"frequency": model.data.frequency, "tokens": model.data.tokens}
        found = chunks(feed, format, 16, **how, schema=model.schema, skip_bad=True)
        for chunk in found:
            check_arrays(chunk.instances)
            if len(chunk.instances):
                workload = open_workload(model, chunk.instances, networks)
                for first, last in workload.windows():
                    with suppress(AbwError):
                        workload.graph(first, last)


def _register(format: str) -> None:
    spec, corpus, words = FORMATS[format]

    @target(f"data-{format}", corpus, words=words)
    def attempt(case: bytes, folder: Path) -> None:
        path = folder / "data"
        path.write_bytes(case)
        if format == "json":
            with suppress(AbwError):
                schema_of_json(path, skip_bad=True)
        with suppress(AbwError):
            _leaving_out(path, format, spec)
        whole = read(path, format)
        check_arrays(whole)
        assert np.all(np.diff(whole.start) > 0)


for _format in FORMATS:
    _register(_format)
