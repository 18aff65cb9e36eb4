"""A small model in a folder of its own, to be changed by each test."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from abw.core.base.errors import Problem, SpecError
from abw.core.ir.model import Model
from abw.core.spec.load import Overrides, load_cell, load_model

LSTM = """\
cell: lstm
dims: [embed, hidden]
inputs: {x: embed, h: hidden, c: hidden}
params: {W: [hidden, embed], U: [hidden, hidden], b: hidden}
equations: |
  # one gate is enough here
  f  = sigmoid(W @ x + U @ h + b)
  c1 = f * c + (1 - f)
  h1 = tanh(c1)
outputs: {h: h1, c: c1}
"""
LINEAR = """\
cell: linear
dims: [in, out]
inputs: {x: in}
params: {W: [out, in], b: out}
equations: y = W @ x + b
outputs: {y: y}
"""
LATTICE = """\
model: lattice
dims: {hidden: 8, embed: 4, tags: 3}
data: {format: lattice, path: d.txt}
tables: {chars: {dim: embed}, words: {dim: embed, rows: 100}}
params: {h0: hidden}
types:
  char: {per: char-arc, cell: lstm.yaml, inputs: {x: "chars[id]", h: from.state.h, c: from.state.c}}
  word: {per: word-arc, cell: lstm.yaml, inputs: {x: "words[id]", h: from.state.h, c: from.state.c}}
  state: {per: position, sum: {h: arcs.h or h0, c: arcs.c}}
  tag: {per: position, cell: linear.yaml, dims: {in: hidden, out: tags}, inputs: {x: state.h}}
outputs: {tags: tag.y}
"""


@dataclass(frozen=True)
class Mark:
    """A part of a text that a test put between « and »."""

    line: int
    column: int
    length: int


def unmark(text: str) -> tuple[str, list[Mark]]:
    """The text without its marks, and the marks."""
    marks = []
    while match := re.search("«([^»]*)»", text):
        before = text[: match.start()].split("\n")
        marks.append(Mark(len(before), len(before[-1]) + 1, max(1, len(match[1].split("\n")[0]))))
        text = text[: match.start()] + match[1] + text[match.end() :]
    return text, marks


def marks_of(problems: tuple[Problem, ...]) -> list[Mark]:
    return [
        Mark(p.where.line, p.where.column, p.where.length) if p.where else Mark(0, 0, 0) for p in problems
    ]


class Folder:
    """A folder with two cells and a data file, and what loading something in it says."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write("lstm.yaml", LSTM)
        self.write("linear.yaml", LINEAR)
        self.write("d.txt", "data\n")

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.write_text(text, encoding="utf-8")
        return path

    def model(self, text: str = LATTICE, overrides: Overrides | None = None) -> Model:
        return load_model(self.write("model.yaml", text), overrides)

    def model_problems(self, text: str, overrides: Overrides | None = None) -> tuple[Problem, ...]:
        with pytest.raises(SpecError) as error:
            self.model(text, overrides)
        return error.value.problems

    def cell_problems(self, text: str, dims: Mapping[str, int] | None = None) -> tuple[Problem, ...]:
        with pytest.raises(SpecError) as error:
            load_cell(self.write("cell.yaml", text), dims)
        return error.value.problems


def edited(text: str, old: str, new: str) -> str:
    """The text with its only `old` replaced."""
    assert text.count(old) == 1, (old, text.count(old))
    return text.replace(old, new)
