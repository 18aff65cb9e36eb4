"""Make `transitions.jsonl`: by which moves a parser builds the trees of `dependency.jsonl`.

Run: `python tests/shipped/transitions.py`. A stack of subtrees and a buffer of words (arc-standard,
Nivre, 2004): move 0 shifts a word, 1 makes the upper of the two topmost the dependent of the lower, 2 the
other way round, both as soon as the dependent has all of its own. Heads cross nowhere.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[2] / "specs/data"


def moves(heads: dict[int, int], words: int) -> list[int]:
    """The moves that build a tree, whose words have these heads; the root has none."""
    missing = [list(heads.values()).count(word) for word in range(words)]
    stack: list[int] = []
    done, first = [], 0
    while first < words or len(stack) > 1:
        lower, upper = stack[-2:] if len(stack) > 1 else (-1, -1)
        if lower >= 0 and heads.get(lower) == upper:
            done.append(2)
            stack[-2:] = [upper]
            missing[upper] -= 1
        elif lower >= 0 and heads.get(upper) == lower and not missing[upper]:
            done.append(1)
            stack.pop()
            missing[lower] -= 1
        else:
            done.append(0)
            stack.append(first)
            first += 1
    return done


def instance(tree: dict[str, Any]) -> dict[str, Any]:
    """The words of a tree, and its moves."""
    words = [{"kind": "token", "word": vertex["word"]} for vertex in tree["vertices"]]
    made = moves(dict(tree["links"]["parent"]), len(words))
    return {
        "id": tree["id"],
        "vertices": [*words, *({"kind": "move", "action": a} for a in made)],
        "links": {},
    }


if __name__ == "__main__":
    trees = map(json.loads, (HERE / "dependency.jsonl").read_text(encoding="utf-8").splitlines())
    lines = [json.dumps(instance(tree)) for tree in trees]
    (HERE / "transitions.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
