"""The engine's replies are the same by one pass and by the ordinary way."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import patch

import pytest

from abw.core.api import LoadedModel, load
from abw.core.serve.answers import Reply
from abw.core.serve.engine import Engine
from abw.core.serve.requests import LINES, TENSORS, Request

ASKED = {"model": "m", "id": "", "outputs": {}, "binary": False}


def replies(engine: Engine, requests: dict[int, Request]) -> dict[int, tuple[Reply, int]]:
    found = filter(None, engine.run(requests))
    return {number: (reply, wrong) for number, reply, wrong in found}


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("treelstm", ["(1 a)", "(3 (2 It) (4 works))", "(2 b)"]),
        ("treelstm-2type", ["(3 (2 It) (4 (1 really) (2 works)))", "(3 (2 It) (4 works))", "(1 a)"]),
        ("dag", []),
        ("plans/bao", []),
    ],
)
def test_replies_are_the_same(root: Path, name: str, texts: list[str]) -> None:
    model = load(root / "specs" / f"{name}.yaml", dims={"hidden": 8}, threads=1, policy="depth")
    texts = texts or model.spec.data.path.read_text().splitlines()[:3]
    engine = Engine(model, 8, 1000)
    batches = [
        {0: Request(LINES, False, texts, [1, 2, 5]), 1: Request(LINES, False, texts[:1], [1], first=7)},
        {0: Request(TENSORS, False, texts, [1, 2, 3], ASKED)},
        {0: Request(LINES, False, texts[:1], [1]), 1: Request(LINES, False, ["(", texts[0]], [1, 2])},
    ]
    if name == "dag":
        named = [json.dumps({**json.loads(text), "id": f"n{i}"}) for i, text in enumerate(texts)]
        batches.append(
            {0: Request(LINES, True, named, [1, 2, 3]), 1: Request(LINES, False, named, [1, 2, 3])}
        )
    for requests in batches:
        with patch.object(LoadedModel, "passed", return_value=None):
            expected = replies(engine, requests)
        assert replies(engine, requests) == expected


def test_plain_requests_take_the_pass(root: Path) -> None:
    model = load(root / "specs" / "treelstm.yaml", dims={"hidden": 8}, threads=1, policy="depth")
    with patch.object(LoadedModel, "read_some", side_effect=AssertionError("the ordinary way")):
        ((reply, wrong),) = replies(
            Engine(model, 8, 1000), {0: Request(LINES, False, ["(1 a)"], [1])}
        ).values()
        assert (reply.status, wrong) == (200, 0)
        with pytest.raises(AssertionError, match="the ordinary way"):  # of more vertices than it is to have
            replies(Engine(model, 8, 2), {0: Request(LINES, False, ["(1 (1 a) (1 b))"], [1])})
