"""Writing to disk so that a thing is there whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from abw.core.errors import AbwError


def home() -> Path:
    """The workbench's folder: `.abw` here, or what the environment variable ABW_HOME names."""
    return Path(os.environ.get("ABW_HOME") or ".abw")


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Write a document, whole or not at all. Errors: AbwError where that is not possible."""
    write_text(path, json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text, whole or not at all. Errors: AbwError where that is not possible."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all. Errors: AbwError where that is not possible."""
    try:
        with replacing(path) as file:
            file.write(content)
    except OSError as error:
        raise AbwError(f"cannot write {path}: {error.strerror}") from error


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file beside a path, which is renamed to it when the block ends well. Errors: OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        # mkstemp makes private files; these are as readable as any other the user writes
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_json(path: Path, what: str) -> dict[str, Any]:
    """Read a document. Errors: AbwError where the file is missing or is no JSON object."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise AbwError(f"{what} {path} does not exist") from None
    except OSError as error:
        raise AbwError(f"cannot read {what} {path}: {error.strerror}") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise AbwError(f"{what} {path} is damaged: {error}") from error
    if not isinstance(document, dict):
        raise AbwError(f"{what} {path} is damaged: it holds no JSON object")
    return document


def require_writable(folder: Path) -> None:
    """Tell before any work that a folder, there or yet to be made, cannot be written to. Errors: AbwError."""
    nearest = next(p for p in (folder, *folder.absolute().parents) if os.access(p, os.F_OK))
    if not nearest.is_dir():
        raise _unwritable(folder, f"{nearest} is no folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise _unwritable(folder, f"{nearest} is not yours to write to")


def _unwritable(folder: Path, reason: str | None) -> AbwError:
    hint = "ABW_HOME names another folder for runs and policies" if folder.is_relative_to(home()) else ""
    return AbwError(f"cannot write to {folder}: {reason}", hint=hint)


@dataclass(slots=True)
class Draft:
    """A folder being filled at `path`; `final` is where it lies once it is whole."""

    path: Path
    final: Path | None = None


@contextmanager
def new_folder(parent: Path, name: str) -> Iterator[Draft]:
    """A folder to fill; it appears as `parent / NNNN-name` when the block ends well, else not at all.

    The number is one more than the largest there; two runs that end at once get two numbers.
    """
    try:
        parent.mkdir(parents=True, exist_ok=True)
        draft = Draft(Path(tempfile.mkdtemp(dir=parent, prefix=".draft-")))
    except OSError as error:
        raise _unwritable(parent, error.strerror) from error
    try:
        yield draft
        draft.path.chmod(0o755)
        draft.final = _settle(draft.path, parent, name)
    except BaseException:
        shutil.rmtree(draft.path, ignore_errors=True)
        raise


def _settle(draft: Path, parent: Path, name: str) -> Path:
    for number in range(last_number(parent) + 1, last_number(parent) + 1000):
        try:
            # the number alone is claimed, by a folder that only one of several runs can make
            claim = parent / f".{number:04d}"
            claim.mkdir()
        except FileExistsError:
            continue
        try:
            if last_number(parent) >= number:  # another run took it meanwhile
                continue
            return draft.rename(parent / f"{number:04d}-{name}")
        finally:
            claim.rmdir()
    raise AbwError(f"cannot find a free number in {parent}")


def last_number(parent: Path) -> int:
    """The largest number of the folders `NNNN-...` in a folder; 0 where there are none."""
    numbers = (p.name.split("-")[0] for p in parent.glob("[0-9]*-*"))
    return max((int(n) for n in numbers if n.isdigit()), default=0)
