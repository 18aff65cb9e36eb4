"""Lists of batches in YAML: what they hold, and their mistakes, all at once and where they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from abw.core.base.errors import SpecError
from abw.core.spec.cells.subgraph import is_subgraph, load_subgraph

GOOD = """layout: small
size: 4
sizes: {W: 16}
inputs: [x]
params: [W, V]
batches:
  - [[a, b], [W, V], [x, x]]
  - [[c], [a]]
"""


def test_what_a_file_holds(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(GOOD)
    assert is_subgraph(path)
    graph = load_subgraph(path)
    assert graph.names == ("a", "b", "W", "V", "x", "c")
    assert graph.floats == (4, 4, 16, 4, 4, 4)
    assert graph.inputs == {4}
    assert graph.params == {2, 3}
    assert graph.batches == (((0, 1), (2, 3), (4, 4)), ((5,), (0,)))


@pytest.mark.parametrize(
    ("old", "new", "said", "line"),
    [
        ("[x, x]]", "[x]]", "equally many lanes", 7),
        ("inputs: [x]", "inputs: [y]", "no batch has a variable 'y'", 4),
        ("inputs: [x]", "inputs: x", "inputs must be a list", 4),
        ("{W: 16}", "{W: many}", "must be a whole number", 3),
        ("size: 4", "sise: 4", "unknown key 'sise'", 2),
        ("[[c], [a]]", "[]", "a batch is a list of operands", 8),
        ("[[c], [a]]", "[[c], []]", "equally many lanes", 8),
        ("[[c], [a]]", "[c, a]", "an operand must be a list", 8),
        ("layout: small", "layout:", "must be a text", 1),
    ],
)
def test_mistakes_are_named_with_their_place(
    tmp_path: Path, old: str, new: str, said: str, line: int
) -> None:
    path = tmp_path / "wrong.yaml"
    assert GOOD.count(old) == 1
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(SpecError, match=said) as caught:
        load_subgraph(path)
    assert f"{path}:{line}:" in str(caught.value)


def test_models_and_cells_are_no_lists_of_batches(root: Path) -> None:
    assert not is_subgraph(root / "specs/lattice.yaml")
    assert not is_subgraph(root / "specs/cells/lstm.yaml")
