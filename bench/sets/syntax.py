"""Syntax trees of Python's standard library: a GRU for each kind of node, over the sum of its children."""

from __future__ import annotations

import ast
import json
import random
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Functions of so many nodes are taken.
LEAST, MOST = 20, 400
# Nodes that say only how an expression is used.
SKIPPED = ast.Load, ast.Store, ast.Del


def functions(seed: int = 0) -> Iterator[ast.AST]:
    """The outermost functions of the standard library's modules, which are in a random order."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    random.Random(seed).shuffle(files)
    for file in files:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                module = ast.parse(file.read_text(encoding="utf-8"))
            except (SyntaxError, UnicodeDecodeError):
                continue
        yield from _outer(module)


def _outer(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _outer(child)
        elif LEAST <= sum(1 for _ in ast.walk(child)) <= MOST:
            yield child


def word_of(node: ast.AST, constants: bool) -> str:
    """What a node is called: a name, an attribute; with `constants` also arguments and literals."""
    word = getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "name", None)
    if constants and isinstance(node, ast.arg | ast.keyword):
        word = node.arg or "**"
    if constants and isinstance(node, ast.Constant):
        word = repr(node.value)[:40]
    return "_".join(str(word or "-").split()) or "-"


def write_syntax(folder: Path, count: int, *, constants: bool = False) -> Path:
    """Write so many functions as trees, and a spec with a type for each kind of node; returns the spec."""
    name = "syntax-constants" if constants else "syntax"
    found = [root for root, _ in zip(functions(), range(count), strict=False)]
    there = {type(node) for root in found for node in ast.walk(root)}
    kinds = sorted(kind.__name__ for kind in there - set(SKIPPED))
    words: dict[str, None] = {}

    def instance(number: int, root: ast.AST) -> dict[str, Any]:
        vertices: list[dict[str, Any]] = []
        children: list[list[int]] = []

        def add(node: ast.AST) -> int:
            below = [add(c) for c in ast.iter_child_nodes(node) if not isinstance(c, SKIPPED)]
            word = word_of(node, constants)
            words.setdefault(word)
            vertices.append({"kind": "node", "class": kinds.index(type(node).__name__), "word": word})
            own = len(vertices) - 1
            children.extend([own, child] for child in below)
            return own

        add(root)
        return {"id": f"function-{number}", "vertices": vertices, "links": {"children": children}}

    lines = (json.dumps(instance(number, root)) + "\n" for number, root in enumerate(found))
    (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    (folder / f"{name}.txt").write_text("\n".join(["<unk>", *words]) + "\n", encoding="utf-8")
    inputs = '{x: "words[word]", h: below.state}'
    types = [
        f"  {kind}: {{per: node, where: class == {n}, cell: cells/gru.yaml, inputs: {inputs}}}"
        for n, kind in enumerate(kinds)
    ]
    text = [
        "model: syntax",
        "dims: {hidden: 64, embed: hidden}",
        f"data: {{format: json, path: {name}.jsonl, batch: 64}}",
        f"tables: {{words: {{dim: embed, vocab: {name}.txt, unknown: <unk>}}}}",
        "types:",
        "  below: {per: node, sum: {state: children.h}}",
        *types,
        f"outputs: {{h: [{', '.join(f'{kind}.h' for kind in kinds)}]}}",
    ]
    spec = folder / f"{name}.yaml"
    spec.write_text("\n".join(text) + "\n", encoding="utf-8")
    return spec
