"""Parts of a policy's document, each only where it is what it should be; else its place and what is wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from abw.core.base.errors import AbwError
from abw.core.policy.learned.fsm import FORMAT

# The largest count that a policy can hold.
MOST = 2**31 - 1
HINT = "learn it anew: `abw learn SPEC`"


class WrongError(Exception):
    """What is wrong in a document, and where."""


@contextmanager
def refused(called: str) -> Iterator[None]:
    """Whatever is wrong in a document, as an AbwError that begins with what it is called."""
    try:
        yield
    except WrongError as error:
        raise AbwError(f"{called} is damaged: {error}", hint=HINT) from None


def require_format(document: dict[str, Any], called: str, *versions: int) -> None:
    """Raise AbwError unless it is a policy's document, of one of these versions."""
    if document.get("format") != FORMAT:
        raise AbwError(f'{called} is not a policy: it lacks "format": "{FORMAT}"')
    version = document.get("version")
    if version not in versions:
        known = f"version{'s' * (len(versions) > 1)} {' and '.join(map(str, versions))}"
        raise AbwError(f"{called} has version {said(version)}, this abw reads {known}", hint=HINT)


def of(found: Any, name: str, kind: type[Any], where: str = "") -> Any:  # noqa: ANN401 (of that kind)
    """A part of that kind: a text, a list or an object. Raises WrongError."""
    path = f"{where}.{name}" if where else name
    if not isinstance(found, dict) or name not in found:
        raise WrongError(f"{path} is missing")
    if not isinstance(found[name], kind):
        wanted = "a text" if kind is str else "a list" if kind is list else "an object"
        raise WrongError(f"{path} must be {wanted}, not {said(found[name])}")
    return found[name]


def texts(found: Any, name: str, where: str = "") -> list[str]:  # noqa: ANN401 (whatever was read)
    """A list of texts. Raises WrongError."""
    texts: list[str] = of(found, name, list, where)
    for n, text in enumerate(texts):
        if not isinstance(text, str):
            path = f"{where}.{name}" if where else name
            raise WrongError(f"{path}[{n}] must be a text, not {said(text)}")
    return texts


def count(found: Any, name: str, where: str = "", *, least: int = 0, most: int = MOST) -> int:  # noqa: ANN401
    """A whole number from `least` to `most`. Raises WrongError."""
    path, value = f"{where}.{name}" if where else name, found.get(name)
    if type(value) is not int or not least <= value <= most:
        raise WrongError(f"{path} must be a whole number from {least} to {most:,}, not {said(value)}")
    return value


def number(found: Any, name: str, where: str = "", *, least: float = -1e300) -> float:  # noqa: ANN401
    """A finite number, and not below `least`. Raises WrongError."""
    path, value = f"{where}.{name}" if where else name, found.get(name)
    if type(value) not in (int, float) or not abs(value) <= 1e300 or not math.isfinite(value):
        raise WrongError(f"{path} must be a finite number, not {said(value)}")
    if value < least:
        raise WrongError(f"{path} must be {least:g} at least, not {said(value)}")
    number: float = value
    return number


def said(value: object) -> str:
    """A value in a message, cut where it is long."""
    text = repr(value if not isinstance(value, int) or abs(value) < 10**30 else float("inf"))
    return text if len(text) <= 60 else text[:57] + "…"
