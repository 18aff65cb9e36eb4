"""The parser by given moves: it builds the trees they are of, and says what the deciding one says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np

from abw.core.exec.params import init_params
from abw.core.run.growing.grown import Grown
from abw.core.run.workload import Workload
from tests.core.run.growing.runs import SPECS, grown, opened, ready


def scores(workload: Workload, made: Grown) -> np.ndarray:
    """Those of all states, in order."""
    number = [t.name for t in workload.model.types].index("score")
    return made.result.value(number, 0)


def test_it_builds_the_trees_that_the_moves_are_of() -> None:
    workload = opened(SPECS / "stackrnn-gold.yaml", hidden=6)
    made = grown(workload, ready(workload, "reference", init_params(workload.network, 1)))
    instances = made.instances
    ways = {name: instances.links[name].target for name in ("leaf", "head", "child")}
    trees = (SPECS / "data/dependency.jsonl").read_text().splitlines()
    for begin, end, line in zip(instances.start[:-1], instances.start[1:], trees, strict=True):
        tree = json.loads(line)
        word: dict[int, int] = {}
        heads = {}
        for entry in (
            np.flatnonzero(instances.kind[begin:end] == instances.schema.kinds.index("entry")) + begin
        ):
            leaf, head, child = (int(ways[name][entry]) for name in ("leaf", "head", "child"))
            if leaf >= 0:
                word[int(entry)] = leaf - int(begin) - 1
            else:
                word[int(entry)] = word[head]
                heads[word[child]] = word[head]
        assert heads == dict(tree["links"]["parent"])


def test_what_the_parser_decided_given_to_it(tmp_path: Path) -> None:
    deciding = opened(SPECS / "stackrnn.yaml", hidden=6, limit=12)
    params = init_params(deciding.network, 3)
    expected = grown(deciding, ready(deciding, "reference", params))
    shutil.copytree(SPECS, tmp_path / "specs")
    lines = []
    sentences = (SPECS / "data/tags.txt").read_text().splitlines()
    for begin, end, sentence in zip(
        expected.instances.start[:-1], expected.instances.start[1:], sentences, strict=False
    ):
        actions = expected.instances.fields["action"][begin:end]
        words = [pair.rpartition("|")[0] for pair in sentence.split()]
        vertices = [{"kind": "token", "word": word} for word in words]
        moves = [{"kind": "move", "action": int(action)} for action in actions[actions >= 0]]
        lines.append(json.dumps({"vertices": [*vertices, *moves], "links": {}}))
    (tmp_path / "specs/data/transitions.jsonl").write_text("\n".join(lines) + "\n")
    gold = opened(tmp_path / "specs/stackrnn-gold.yaml", hidden=6)
    assert [p.name for p in gold.network.params] == [p.name for p in deciding.network.params]
    made = grown(gold, ready(gold, "cpu", params, 1))
    assert made.driven is None
    np.testing.assert_allclose(scores(gold, made), scores(deciding, expected), 1e-5, 1e-6)
