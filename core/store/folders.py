"""Numbered folders that appear whole or not at all, and whether one can be written."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from abw.core.base.errors import AbwError
from abw.core.base.files import DRAFT, home, lock, locked, opened, write_text, writing

# The file in which the largest number is kept when its folder is discarded.
LAST = ".last"

# Seconds after which a draft that no process has is removed.
ABANDONED = 3600.0


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

    The number is one more than the largest that was given; runs that end at once get different ones. Drafts
    that a killed process left are removed.
    """
    try:
        parent.mkdir(parents=True, exist_ok=True)
        _sweep(parent)
        draft = Draft(Path(tempfile.mkdtemp(dir=parent, prefix=DRAFT)))
    except OSError as error:
        raise _unwritable(parent, error.strerror) from error
    try:
        with locked(draft.path):  # so that nobody takes it for one that was left
            yield draft
            with writing(parent):
                draft.path.chmod(0o755)
                draft.final = _settle(draft.path, parent, name)
    except BaseException:
        shutil.rmtree(draft.path, ignore_errors=True)
        raise


@contextmanager
def passing_folder() -> Iterator[Draft]:
    """A folder to fill that is gone when the block ends."""
    with tempfile.TemporaryDirectory(prefix="abw-") as path:
        yield Draft(Path(path))


def discard(folder: Path) -> None:
    """Remove a folder such that nobody sees half of it; its number is not given again. Errors: AbwError."""
    draft = folder.with_name(f"{DRAFT}{folder.name}")
    with writing(folder), locked(folder.parent):
        with suppress(AbwError):  # on a full disk removing comes first
            write_text(folder.parent / LAST, f"{_largest(folder.parent)}\n")
        folder.rename(draft)
    shutil.rmtree(draft, ignore_errors=True)


def _settle(draft: Path, parent: Path, name: str) -> Path:
    with locked(parent):
        return draft.rename(parent / f"{_largest(parent) + 1:04d}-{name}")


def _largest(parent: Path) -> int:
    """The largest number that a folder has, or had before it was discarded."""
    last = parent / LAST
    said = last.read_text(encoding="ascii", errors="replace").strip() if last.is_file() else ""
    given = int(said) if re.fullmatch("[0-9]{1,9}", said) else 0
    return max([given, *map(number_of, parent.iterdir())])


def _sweep(parent: Path) -> None:
    """Remove drafts that are an hour old, by a clock that may have been set back, and that no process has."""
    for path in parent.iterdir():
        if path.name.startswith(DRAFT):
            with suppress(OSError):
                if abs(time.time() - path.stat().st_mtime) > ABANDONED and not _has_owner(path):
                    shutil.rmtree(path)


def _has_owner(folder: Path) -> bool:
    with opened(folder) as file:
        return not lock(file, wait=False)


def numbered(parent: Path) -> list[Path]:
    """The folders `NNNN-...` in a folder by their numbers. Cost: one listing."""
    found = [path for path in parent.iterdir() if number_of(path)] if parent.is_dir() else []
    return sorted(found, key=lambda path: (number_of(path), path.name))


def number_of(path: Path) -> int:
    """The number of a folder `NNNN-...`; 0 for another."""
    number, dash, _ = path.name.partition("-")
    return int(number) if dash and number.isascii() and number.isdigit() else 0


def begin_folder(parent: Path, name: str) -> Path:
    """A folder `parent / NNNN-name` to fill bit by bit: it is there at once. Errors: AbwError."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with locked(parent):
            path = parent / f"{_largest(parent) + 1:04d}-{name}"
            path.mkdir()
            return path
    except OSError as error:
        raise _unwritable(parent, error.strerror) from error


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Lock a folder for this process until the block ends. Errors: AbwError where another has it."""
    with opened(folder) as file:
        if not lock(file, wait=False):
            raise AbwError(f"{folder} is being written by another process", hint="wait for it, or stop it")
        yield
