"""The models that ship with abw, which are found by name wherever one is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import abw
from abw.core.base.errors import AbwError, did_you_mean
from abw.core.spec.text import fields
from abw.core.spec.text.document import read, text_at

FOLDER = Path(abw.__file__).parent / "specs"


def shipped_files() -> list[Path]:
    """The files of the models that ship, by name."""
    return sorted((*FOLDER.glob("*.yaml"), *FOLDER.glob("plans/*.yaml")), key=lambda path: path.stem)


@dataclass(frozen=True, slots=True)
class Shipped:
    """A model that ships: its name, its file, the format of its data, and what its first comment says."""

    name: str
    path: Path
    format: str
    summary: str


def find_shipped(name: str) -> Path | None:
    """The file of the model that ships under a name; None where there is none, or where a file or folder here
    has that name.
    """
    if not fields.NAME.fullmatch(name) or Path(name).exists():
        return None
    found = (FOLDER / f"{name}.yaml", FOLDER / "plans" / f"{name}.yaml")
    return next((path for path in found if path.is_file()), None)


def find_spec(path: Path) -> Path:
    """The file that a path or the name of a shipped model means.

    Errors: AbwError for what can only be such a name, and is none.
    """
    name = str(path)
    found = find_shipped(name)
    if found is None and fields.NAME.fullmatch(name) and not path.exists():
        hint = nearest(name) or "`abw specs` lists those that ship"
        raise AbwError(f"there is no file {name}, and no model of that name ships", hint=hint)
    return found or path


def nearest(name: str) -> str:
    """A hint for a wrong name: the model that ships under a similar one; '' where none does."""
    near = did_you_mean(name, [spec.stem for spec in shipped_files()])
    return near if near.startswith("did you mean") else ""


def shipped() -> Iterator[Shipped]:
    """All models that ship, by name. Cost: their files are read as YAML, some milliseconds each."""
    for path in shipped_files():
        if form := text_at(read(path), "data", "format"):
            yield Shipped(path.stem, path, form, _summary(path))


def _summary(path: Path) -> str:
    """The first sentence of the comment above the model."""
    comment: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith("# yaml-language-server:"):
            comment.append(line.removeprefix("#").strip())
    return re.split(r"(?<=\.)(?<!Fig\.) ", " ".join(comment))[0]


def functions_in(path: Path) -> list[str]:
    """The names of a Python file's functions, without running it; nothing where it cannot be read."""
    return [node.name for node in _body(path) if isinstance(node, ast.FunctionDef) and node.name[:1] != "_"]


def shipped_programs() -> Iterator[Shipped]:
    """All programs that ship, by the names that `abw run` takes; none is run."""
    for path in sorted((FOLDER / "programs").glob("*.py")):
        match _body(path)[:1]:
            case [ast.Expr(value=ast.Constant(value=str(text)))]:
                summary = text.split("\n")[0]
            case _:
                summary = ""
        for name in functions_in(path):
            yield Shipped(f"programs/{path.name}:{name}", path, "program", summary)


def _body(path: Path) -> list[ast.stmt]:
    try:
        return ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []
