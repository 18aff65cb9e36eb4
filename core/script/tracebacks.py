"""Reports what a user's code raises, with the lines of that code alone."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import abw
from abw.core.base.errors import AbwError, did_you_mean
from abw.core.base.interrupts import Terminated
from abw.core.base.modules import near
from abw.core.program.net import Net
from abw.core.program.running.fibers import Stopped

# Where code of abw's own is.
_OWN = tuple(f"{(Path(abw.__file__).parent / part).resolve()}/" for part in ("bench", "cli", "core", "viz"))
# So many places are shown at most: the first, and the last ones.
_SHOWN = 12


def user_error(error: BaseException, what: str, more: str = "") -> AbwError:
    """Make an AbwError of an error: what it is, where in the user's code, and `more`."""
    hint = error.hint if isinstance(error, AbwError) else _meant(error)
    message = error.message if isinstance(error, AbwError) else _named(error)
    lines = [f"{what}: {message}", *_places(error)]
    return AbwError("\n".join(lines) + more, hint=hint)


@contextmanager
def located(what: str, kinds: tuple[type[BaseException], ...] = (Exception, SystemExit)) -> Iterator[None]:
    """Let errors of these kinds be AbwErrors with the lines of the user's code that they came from."""
    try:
        yield
    except Terminated:
        raise
    except kinds as error:
        raise user_error(error, what) from error


def exit_refused(what: str) -> AbstractContextManager[None]:
    """Let a program that wants to end Python be an AbwError, with the lines of its code."""
    return located(f"{what} wants to end Python", (SystemExit,))


def line_in_user_code(error: BaseException) -> str:
    """The innermost line of the user's code that an error came through; '' where there is none."""
    theirs = [frame for frame in traceback.extract_tb(error.__traceback__) if not is_own(frame.filename)]
    return f"{near(theirs[-1].filename)}:{theirs[-1].lineno}, in {theirs[-1].name}" if theirs else ""


def _named(error: BaseException) -> str:
    """The kind of an error and its message; for wrong syntax also the line."""
    if isinstance(error, Stopped):
        return str(error)
    return "".join(traceback.TracebackException.from_exception(error).format_exception_only()).rstrip()


def _meant(error: BaseException) -> str:
    """The nearest name that a net has instead of a missing one; '' for other errors."""
    if not isinstance(error, AttributeError) or not isinstance(error.obj, Net):
        return ""
    return did_you_mean(str(error.name), [name for name in vars(error.obj) if not name.startswith("_")])


def _places(error: BaseException) -> list[str]:
    """The lines of the user's code that an error came through, the innermost last."""
    every = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in every if not is_own(frame.filename)]
    if len(theirs) > _SHOWN:
        theirs = [theirs[0], *theirs[1 - _SHOWN :]]
    said = []
    for frame in theirs:
        said.append(f"  {near(frame.filename)}:{frame.lineno}, in {frame.name}")
        if frame.line:
            said.append(f"    {frame.line}")
    return said


def is_own(file: str) -> bool:
    """Whether a file is no code of the user's: abw's, Python's import, the functions that record calls."""
    return file.startswith("<") or str(Path(file).resolve()).startswith((*_OWN, abw.__file__))
