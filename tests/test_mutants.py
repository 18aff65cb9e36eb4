"""Mutants are programs that differ in the place that they name."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.mutants import Mutant, mutants_of

TEXT = '''
def é(values: list[int], most: int = 3) -> int:
    """1 + 1 in a text is no place."""
    found = 0
    for value in values:
        if not value or value < most and (
            value != 2
        ):
            found += value - 1
            continue
        print(value)
    if found == 7:
        raise ValueError(f"{found + 1}")
    return found
'''


def changed(mutant: Mutant) -> str:
    content = TEXT.encode()
    assert content[mutant.begin : mutant.end].decode() == mutant.old
    return (content[: mutant.begin] + mutant.new.encode() + content[mutant.end :]).decode()


def test_each_is_another_program() -> None:
    trees = [ast.dump(ast.parse(changed(mutant))) for mutant in mutants_of(Path("x.py"), TEXT)]
    assert len({*trees, ast.dump(ast.parse(TEXT))}) == len(trees) + 1


def test_every_kind_of_place_is_changed_and_no_text_or_error() -> None:
    found = {(mutant.line, mutant.new) for mutant in mutants_of(Path("x.py"), TEXT)}
    assert {new for line, new in found if line == 6} >= {
        "(not value and (value < most and value != 2))",
        "(value < most or value != 2)",
        "(value <= most)",
        "(not (not value or (value < most and value != 2)))",
    }
    assert found >= {(2, "4"), (4, "1"), (7, "(value == 2)"), (9, "pass"), (9, "(value + 1)"), (9, "2")}
    assert found >= {(10, "pass"), (11, "pass"), (12, "(found != 7)"), (12, "8")}
    assert not {line for line, _ in found} & {3, 13, 14}
