"""Modules of users' own."""

from __future__ import annotations

import contextlib
import importlib
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from abw.core.base.errors import AbwError


@contextmanager
def beside(folder: Path) -> Iterator[None]:
    """Look for modules in a folder, too."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        with suppress(ValueError):
            sys.path.remove(str(folder))


def module_at(where: str, hint: str) -> ModuleType:
    """A module by its file or its name; its code is run, once as long as the file stays the same.

    Modules are looked for where Python does, and in the folder at hand. What the code raises becomes an
    AbwError with the place in its file. Errors: AbwError where there is none, with this hint.
    """
    if not where.endswith(".py"):
        return _imported(where, hint)
    path = Path(where).resolve()
    if not path.is_file():
        raise AbwError(f"there is no file {where}", hint=hint)
    return _of_file(path, path.stat().st_mtime_ns)


@contextmanager
def placed(name: str, *passing: str) -> Iterator[None]:
    """Let exceptions of the block be AbwErrors with the line of the user's file that they came from.

    `passing`: files of ours that they pass on the way.
    """
    try:
        yield
    except AbwError:
        raise
    except SyntaxError as error:
        raise AbwError(f"{near(error.filename or name)}:{error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        passed = (__file__, importlib.__file__, contextlib.__file__, *passing)
        every = traceback.extract_tb(error.__traceback__)
        frames = [f for f in every if f.filename not in passed and not f.filename.startswith("<")]
        lines = [f.lineno for f in frames if f.filename == frames[0].filename]
        place = f"{near(frames[0].filename)}:{lines[-1]}" if frames else name
        raise AbwError(f"{place}: {type(error).__name__}: {error}") from error


def near(file: str) -> str:
    """Shorten a file's name relative to the current folder, if it is below it."""
    path = Path(file)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


@cache
def _of_file(path: Path, _modified: int) -> ModuleType:
    """The module that a file is, run once as long as it stays the same."""
    spec = spec_from_file_location(f"abw_own_{path.stem}", path)
    assert spec and spec.loader
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # as dataclasses want it
    with placed(str(path)), beside(path.parent):
        spec.loader.exec_module(module)
    return module


def _imported(name: str, hint: str) -> ModuleType:
    with placed(name), beside(Path.cwd()):
        try:
            return importlib.import_module(name)
        except (ModuleNotFoundError, ValueError) as error:
            if name and not f"{name}.".startswith(f"{getattr(error, 'name', '')}."):
                raise
            raise AbwError(f"there is no module '{name}'", hint=hint) from None
