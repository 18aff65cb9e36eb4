"""Turns functions into commands: groups of options, groups of commands, and how their values are read.

A command is a function of arguments and *option groups*: frozen dataclasses made by `group`, each field an
`option` that says once what it is. `flattened` puts the fields in place of the groups, so that Typer sees
plain parameters, and builds the groups again when the command runs.

Typer makes all commands of a group before it looks for one, and asks pydantic about each value. That took
longer than everything else `abw run` does before it reads the spec; so commands are imported on demand, and
values are read by `value_of`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache, partial, update_wrapper
from importlib import import_module
from typing import (
    Annotated,
    Any,
    ClassVar,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import OptionInfo

from abw.cli.usage import name_of, value_of

# Typer's own object, whose class changes from version to version; what is read of it does not.
Param = Any
G = TypeVar("G")


def option(
    help: str,
    metavar: str | None = None,
    *names: str,
    default: Any = None,  # noqa: ANN401
    shown: str = "",
    least: float | None = None,
    most: float | None = None,
    program: str = "",
    **more: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401 (as typer.Option)
    """Declare an option, as the default of a field of a `group`.

    `names`: short names and, where it is not the field's name with dashes, the long one. `shown`: the default
    in words. `least`, `most`: bounds of a number. `program`: why it cannot be used with a program; without a
    reason it can. `more`: further arguments of `typer.Option`.
    """
    more |= {"min": least, "max": most, "show_default": shown or True}
    info = typer.Option(default, *names, metavar=metavar, help=help, **more)
    vars(info)["program"] = program
    return info


def flag(help: str, *names: str, program: str = "") -> Any:  # noqa: ANN401 (as typer.Option)
    """Declare an option without a value: False unless it is typed."""
    return option(help, None, *names, default=False, program=program)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def group(cls: type[G]) -> type[G]:
    """Make a group of options: a frozen dataclass whose fields are `option`s."""
    for name, info in list(vars(cls).items()):
        if isinstance(info, OptionInfo):
            setattr(cls, name, field(default=info.default, metadata={"option": _named(name, info)}))
    return dataclass(frozen=True, kw_only=True)(cls)


def _named(name: str, info: OptionInfo) -> OptionInfo:
    """A copy of an option with its long name, which several fields may share."""
    copy = object.__new__(OptionInfo)
    vars(copy).update(vars(info))
    names = tuple(info.param_decls or ())
    long = () if any(each.startswith("--") for each in names) else (f"--{name.replace('_', '-')}",)
    copy.param_decls = (*long, *names)
    return copy


class Without(frozenset[str]):
    """Names of options that a command leaves out of a group; they keep their defaults."""


def without(*names: str) -> Without:
    """Mark a parameter: `changes: Annotated[Changes, without("limit")]`."""
    return Without(names)


def flattened(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with the options of its groups as parameters in place of the groups."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, tuple[type[Any], list[str]]] = {}
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        hint = hints[name]
        kind, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        if is_dataclass(kind) and isinstance(kind, type):
            left_out = next((mark for mark in marks if isinstance(mark, Without)), Without())
            types = get_type_hints(kind)
            taken = [f for f in fields(kind) if f.name not in left_out]
            groups[name] = (kind, [f.name for f in taken])
            added = [(f.name, f.metadata["option"], types[f.name]) for f in taken]
        else:
            added = [(name, parameter.default, hint)]
        parameters += [
            inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=d, annotation=a) for n, d, a in added
        ]
    if not groups:
        return function

    def run(**values: Any) -> Any:  # noqa: ANN401
        made = {n: kind(**{f: values.pop(f) for f in names}) for n, (kind, names) in groups.items()}
        return function(**made, **values)

    update_wrapper(run, function)
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def chosen(*groups: Any) -> Iterator[tuple[str, OptionInfo]]:  # noqa: ANN401
    """The options of groups that differ from their defaults, each with its long name."""
    for each in groups:
        for f in fields(each):
            if getattr(each, f.name) != f.default:
                info = f.metadata["option"]
                yield max(info.param_decls, key=len), info


def filled(kind: type[G], *groups: Any, **more: Any) -> G:  # noqa: ANN401 (dataclasses)
    """Make core's options of `more` and what groups have under the names of its fields; the last counts."""
    found = {f.name: value for g in groups for f in fields(g) if (value := getattr(g, f.name)) is not None}
    return kind(**{f.name: found[f.name] for f in fields(kind) if f.name in found} | more)  # type: ignore[arg-type]


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
            kind, info = declared(self).get(param.name, (None, None))
            if kind is None:  # an option of Typer's own
                return convert(context, value)
            bounds = (getattr(info, "min", None), getattr(info, "max", None))
            read = partial(value_of, kind=kind, bounds=bounds, where=name_of(param))
            if isinstance(value, str):
                value = read(value)
            elif isinstance(value, list | tuple):
                value = [read(str(text)) for text in value]
        return param.callback(context, param, value) if param.callback else value


class Command(_Values, TyperCommand):
    """A command."""


class Group(_Values, TyperGroup):
    """Commands by name, in order, each with where it is: 'MODULE:FUNCTION', or 'MODULE:APP' of a Typer."""

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
    module, attribute = place.split(":")
    found = import_module(module)
    app = getattr(found, attribute)
    if not isinstance(app, typer.Typer):
        function, app = app, typer.Typer(add_completion=False)
        app.command(cls=vars(found).get("COMMAND", Command))(flattened(function))
    command = typer.main.get_command(app)
    command.name = name
    return command


@cache
def declared(command: Any) -> dict[str, tuple[Any, Any]]:  # noqa: ANN401 (Typer's)
    """Each parameter's type without None, of lists their members', and what else its function declares."""
    if command.callback is None:
        return {}
    found = {}
    for name, parameter in inspect.signature(command.callback, eval_str=True).parameters.items():
        kind, info = parameter.annotation, parameter.default
        if get_origin(kind) is Annotated:
            kind, info, *_ = get_args(kind)
        if type(None) in get_args(kind):
            kind = next(one for one in get_args(kind) if one is not type(None))
        found[name] = (get_args(kind)[0] if get_origin(kind) is list else kind, info)
    return found
