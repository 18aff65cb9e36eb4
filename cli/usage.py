"""Errors of a wrong command line, in the form of all other errors."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any, get_args, get_origin

import typer

from abw.core.base.errors import AbwError, did_you_mean

# The class of what Typer raises; it is not among its public names.
UsageError: Any = next(one for one in typer.BadParameter.__mro__ if one.__name__ == "ClickException")

# Typer's own object, whose class changes from version to version; what is read of it does not.
Param = Any


class NotAllowedError(AbwError):
    """A value that an option or an argument cannot have."""

    def __init__(self, where: str, value: str, wanted: str = "", *, hint: str = "") -> None:
        """`where`: the option's or argument's name; `wanted`: what it takes."""
        message = f"{where} takes {wanted}, not '{value}'" if wanted else f"{where} does not take '{value}'"
        super().__init__(message, hint=hint, exit_code=2)


def name_of(param: Param) -> str:
    """The name of an option as it is typed, or of an argument as help shows it."""
    if param.param_type_name == "option":
        return str(max(param.opts, key=len))
    return str(param.metavar or param.name.upper()).strip("[]")


def one_of(value: str, allowed: Sequence[str], where: str) -> str:
    """Return the value if it is allowed. Errors: AbwError that lists what is."""
    if value not in allowed:
        raise NotAllowedError(where, value, hint=did_you_mean(value, allowed))
    return value


def value_of(text: str, kind: Any, bounds: tuple[float | None, float | None], where: str) -> Any:  # noqa: ANN401
    """Parse a value of a type: a number between bounds, one of a few words, a path. Errors: AbwError."""
    low, high = bounds
    if get_origin(kind) is not None:
        allowed = [str(value) for value in get_args(kind)]
        if text not in allowed:
            raise NotAllowedError(where, text, hint=f"one of: {', '.join(allowed)}")
        return text
    if kind not in (int, float):
        return kind(text)
    noun = "a whole number" if kind is int else "a number"
    try:
        value = kind(text)
    except ValueError:
        raise NotAllowedError(where, text, noun) from None
    if not ((low is None or value >= low) and (high is None or value <= high)):
        to = f" to {high:g}" if high is not None else ""
        raise NotAllowedError(where, text, f"{noun} from {low or 0:g}{to}")
    return value


def told(error: Any) -> AbwError:  # noqa: ANN401 (Typer's)
    """Convert a usage error of Typer's into one of ours."""
    context = error.ctx
    command = context.command_path if context else "abw"
    more = f"`{command} --help` lists arguments and options" if context else ""
    kind = type(error).__name__
    if kind == "MissingParameter" and error.param is not None:
        name = name_of(error.param)
        hint = "`abw specs` lists the models that ship" if name.startswith("SPEC") else more
        return AbwError(f"{command} needs {name}", hint=hint, exit_code=2)
    if kind == "NoSuchOption":
        near = difflib.get_close_matches(error.option_name, error.possibilities or (), n=1)
        hint = f"did you mean {near[0]}?" if near else more
        return AbwError(f"{command} has no option {error.option_name}", hint=hint, exit_code=2)
    if isinstance(error, typer.BadParameter):
        where = error.param_hint or (name_of(error.param) if error.param is not None else "")
        return AbwError(f"{where}: {error.message}" if where else error.message, exit_code=2)
    message = error.format_message()
    if unknown := re.match(r"No such command '(.*?)'\.", message, re.DOTALL):
        names = sorted(context.command.commands)
        hint = did_you_mean(unknown[1], names)
        return AbwError(f"{command} has no command '{unknown[1]}'", hint=hint, exit_code=2)
    return AbwError(message[:1].lower() + message[1:].rstrip("."), hint=more, exit_code=2)
