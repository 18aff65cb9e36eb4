"""The text of a model's blocks, line by line, for SVG, DOT and the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap
from typing import Literal

from abw.viz.data.pictures import Block, LinkView, ModelPicture

# The most characters of a line.
COLUMNS = 46

# Between what stays on one line.
FIXED = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a block, in two parts: a value with its shape and where it comes from, or text alone."""

    part: Literal["input", "inside", "output"]
    name: str
    said: str

    def __str__(self) -> str:
        arrow = {"input": " ← ", "inside": "", "output": ""}[self.part]
        return f"{self.name}{arrow if self.name and self.said else ''}{self.said}"


def sizes(shape: tuple[int, ...]) -> str:
    """`64×32`; nothing of a single number of the data."""
    return "×".join(map(str, shape))


def head(block: Block) -> str:
    """A block's name, with what it is where that is no type."""
    what = {"type": "", "growth": "kind ", "param": "parameter "}.get(block.role, f"{block.role} ")
    return f"{what}{block.name}" + (f" ×{block.layers}" if block.layers > 1 else "")


def beside(block: Block) -> str:
    """Say which vertices a block is on, or how they are created; written next to its name."""
    if block.role == "growth":
        return block.does
    return f"per {block.per}" if block.role == "type" else f"of {block.per}" if block.per else ""


def rows(block: Block) -> list[Row]:
    """A block's lines below its head, none longer than COLUMNS: what it takes, does, has and gives."""
    found: list[Row] = []
    for slot in block.inputs:
        name = f"{slot.name} {sizes(slot.shape)}".rstrip()
        first, *more = wrap(slot.source, max(12, COLUMNS - len(name) - 3)) or [""]
        found.append(Row("input", name, first))
        found += [Row("input", "", line) for line in more]
    found += [Row("inside", "", line) for text in _inside(block) for line in wrap(text, COLUMNS)]
    if block.role != "output":
        given = ", ".join(f"{slot.name}{FIXED}{sizes(slot.shape)}".rstrip() for slot in block.outputs)
        if block.role in ("type", "growth"):
            found += [Row("output", "", line) for line in wrap(f"gives {given}" if given else "", COLUMNS)]
    return found


def _inside(block: Block) -> Iterator[str]:
    """Yield what a block does and has, a line each."""
    if block.role in ("table", "param", "field", "output"):
        shape = sizes(block.outputs[0].shape) if block.outputs else ""
        rows_of = f"{block.numbers // _floats(block):,} rows of {shape}" if block.role == "table" else shape
        yield from filter(None, (rows_of, block.does))
        return
    if block.role == "type":
        yield block.does + (f": {block.notes[0]}" if block.notes else "")
    own = [f"{p.name}{FIXED}{sizes(p.shape)}" for p in block.params if not p.of]
    if own:
        alone = sum(math.prod(p.shape) for p in block.params if not p.of) == block.numbers
        each = ""
        if block.layers > 1:
            each = ", the same in all layers" if alone else f", {block.layers} layers together"
        yield f"{block.numbers:,} parameters{each}: {', '.join(own)}"
    others = [(p.of.rpartition(".")[0], p) for p in block.params if p.of]
    for owner, shared in groupby(others, key=lambda pair: pair[0]):
        names = ", ".join(f"{p.name}{FIXED}{sizes(p.shape)}" for _, p in shared)
        yield f"parameters of {owner or 'the model'}: {names}"
    yield from block.notes[block.role == "type" :]


def _floats(block: Block) -> int:
    return math.prod(block.outputs[0].shape)


def facts(picture: ModelPicture) -> str:
    """Describe the model as a whole in a line."""
    dims = ", ".join(f"{name} {size}" for name, size in picture.dims.items())
    return f"{picture.numbers:,} numbers in parameters and tables · {dims} · data {picture.data}"


def link_row(link: LinkView) -> tuple[str, str, str]:
    """A link's name, its kinds, and what it is."""
    number = "several " if link.many else ""
    together: dict[tuple[str, ...], list[str]] = {}
    for kind, reached in link.reach.items():
        together.setdefault(reached, []).append(kind)
    said = [f"{', '.join(kinds)} → {number}{', '.join(reached)}" for reached, kinds in together.items()]
    return link.name, "; ".join(said), link.how
