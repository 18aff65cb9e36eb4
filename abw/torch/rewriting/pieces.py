"""What functions are rewritten with: regions as pieces of code, and nodes of the syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from abw.torch.tracing.trace import MEANINGS, base_name


@dataclass
class Piece:
    """A region of a function: its name there, what it reads, its code, and its first line."""

    name: str
    live: list[str]
    body: list[ast.stmt]
    line: int


def at_line(node: Any, like: Any) -> Any:
    return ast.copy_location(node, like)


def load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def target(names: list[str], context: Callable[[], Any]) -> Any:
    if len(names) == 1:
        return ast.Name(names[0], context())
    return ast.Tuple([ast.Name(n, context()) for n in names], context())


def writes_in_place(s: ast.stmt) -> bool:
    """Whether a statement may write into a tensor: `x.add_(y)`, `x[i] = y`, `x += y`."""
    return isinstance(s, ast.AugAssign) or any(
        (isinstance(n, ast.Attribute) and n.attr.endswith("_") and not n.attr.startswith("_"))
        or (isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store))
        for n in ast.walk(s)
    )


def code_writes(function: Any) -> bool:
    """Whether a function of the user's calls operations in place, as `x.add_(y)`."""
    code = getattr(function, "__code__", None)
    return code is not None and any(base_name(n) != n and base_name(n) in MEANINGS for n in code.co_names)


def is_torchs(module: torch.nn.Module) -> bool:
    """Whether a stand-in of one function is made for a module."""
    apart = torch.nn.RNNBase | torch.nn.modules.loss._Loss
    return type(module).__module__.startswith("torch.nn") and not isinstance(module, apart)


def contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


class Pending(ast.stmt):
    """A region still to be written: its statements, the names it reads before it writes, and writes."""

    _fields = ()

    def __init__(self, run: list[Any]) -> None:
        super().__init__()
        self.run, self.live, self.written = run, list[str](), set[str]()
        self.lineno, self.col_offset = run[0].lineno, run[0].col_offset
