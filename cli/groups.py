"""Groups of commands, each imported and made when it is looked for, and what a command does with its values.

Typer makes all commands of a group before it looks for one, and asks pydantic about each value: that took
longer than all else that `abw run` does before it reads the spec, and what it said was pydantic's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from importlib import import_module
from typing import Any, ClassVar, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

from abw.cli.usage import name_of, value_of

# Typer's own object, whose class changes from version to version; what is read of it does not.
Param = Any


class _Values:
    """A command whose values are read by `value_of`, and whose flags have no value in its help."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 (Typer's)
        """The parameters, each with its way from a text to a value."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            vars(param).setdefault("process_value", partial(self._taken, param, param.process_value))
            if getattr(param, "is_flag", False):
                vars(param).setdefault("display_type_rich", lambda ctx: None)  # else help says <bool>
        return params

    def _taken(self, param: Param, convert: Callable[..., Any], context: Any, value: Any) -> Any:  # noqa: ANN401
        if value in (None, (), []) and param.required:
            return convert(context, value)  # which says that it is missing
        if value is not None and value is not param.default:
            kind = kinds_of(self).get(param.name)
            if kind is None:  # an option of Typer's own
                return convert(context, value)
            read = partial(value_of, kind=kind, bounds=_bounds(self)[param.name], where=name_of(param))
            if isinstance(value, str):
                value = read(value)
            elif isinstance(value, list | tuple):
                value = [read(str(text)) for text in value]
        return param.callback(context, param, value) if param.callback else value


class Command(_Values, TyperCommand):
    """A command. One that prints only what was asked for takes --quiet, and has nothing to leave out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 (Typer's)
        """Read the arguments."""
        if "quiet" not in kinds_of(self):
            args = [arg for arg in args if arg not in ("--quiet", "-q")]
        return super().parse_args(ctx, args)


class Several(_Values, TyperGroup):
    """Commands that are made with the group."""


class Group(Several):
    """Commands by name, in order, each as where it is: 'MODULE:FUNCTION', or 'MODULE:APP' of a Typer."""

    places: ClassVar[Mapping[str, str]]

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 (Typer's)
        super().__init__(*args, **options)
        self.commands: Any = _Commands(self.places)

    def list_commands(self, ctx: object) -> list[str]:
        """The names, for which none needs to be made."""
        return list(self.places)


class _Commands(Mapping[str, Any]):
    """Commands that are made when they are looked for."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self.places = places

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 (Typer's)
        return _made(name, self.places[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


@cache
def _made(name: str, place: str) -> Any:  # noqa: ANN401 (Typer's)
    module, found = place.split(":")
    app = getattr(import_module(module), found)
    if not isinstance(app, typer.Typer):
        function, app = app, typer.Typer(add_completion=False)
        app.command(cls=Command)(function)
    command = typer.main.get_command(app)
    command.name = name
    return command


@cache
def _bounds(command: Any) -> dict[str, tuple[float | None, float | None]]:  # noqa: ANN401 (Typer's)
    """The least and the largest value of each parameter, where its function declares them."""
    bounds = {}
    for name, parameter in inspect.signature(command.callback, eval_str=True).parameters.items():
        info = getattr(parameter.annotation, "__metadata__", [parameter.default])[0]
        bounds[name] = (getattr(info, "min", None), getattr(info, "max", None))
    return bounds


@cache
def kinds_of(command: Any) -> dict[str, Any]:  # noqa: ANN401 (Typer's)
    """The type of each parameter as its function declares it, without None; of lists, their members'."""
    if command.callback is None:
        return {}
    kinds = {}
    for name, parameter in inspect.signature(command.callback, eval_str=True).parameters.items():
        annotation = parameter.annotation
        kind = get_args(annotation)[0] if hasattr(annotation, "__metadata__") else annotation
        if type(None) in get_args(kind):
            kind = next(one for one in get_args(kind) if one is not type(None))
        kinds[name] = get_args(kind)[0] if get_origin(kind) is list else kind
    return kinds
