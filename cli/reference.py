"""docs/cli.md, made from the commands themselves: `python -m abw.cli.reference > docs/cli.md`.

Not by Typer's own generator, whose text differs from version to version.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer.main

from abw.cli.groups import kinds_of
from abw.cli.main import app

Command = Any
Param = Any
"""Typer's own objects, whose classes change from version to version; what is read of them does not."""

_HEAD = """\
# Commands

What `abw COMMAND --help` says. `abw --version` prints the version, `abw --install-completion` makes your shell complete commands and options. Exit codes: 0 done, 1 failed, 2 wrong command line, 130 interrupted, 141 standard output closed by who read it. Made by `python -m abw.cli.reference > docs/cli.md`; keys of specs are in [reference.md](reference.md).
"""  # noqa: E501


def commands() -> dict[str, Command]:
    """Every command by its full name, `abw runs show`, with those that only hold others, in order."""
    return dict(_walk("abw", typer.main.get_command(app)))


def _walk(name: str, command: Command) -> Iterator[tuple[str, Command]]:
    yield name, command
    for key, inner in getattr(command, "commands", {}).items():
        yield from _walk(f"{name} {key}", inner)


def reference() -> str:
    """The page, as Markdown."""
    named = {name: command for name, command in commands().items() if name != "abw"}
    lines = [_HEAD, "| command | |", "| --- | --- |"]
    for name, command in named.items():
        lines.append(f"| [`{name}`](#{name.replace(' ', '-')}) | {_escaped(_first(command))} |")
    lines.append("")
    for name, command in named.items():
        lines.extend(_command(name, command))
    return "\n".join(lines)


def _first(command: Command) -> str:
    return inspect.cleandoc(command.help).split("\n\n")[0].replace("\n", " ")


def _command(name: str, command: Command) -> Iterator[str]:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option"]
    shown = "".join(f" {_metavar(a)}" if a.required else f" [{_metavar(a)}]" for a in arguments)
    inner = " COMMAND" if getattr(command, "commands", None) else ""
    yield f"## {name}\n\n```\n{name}{shown}{' [OPTIONS]' if options else ''}{inner}\n```\n"
    yield inspect.cleandoc(command.help) + "\n"
    kinds = kinds_of(command)
    if arguments:
        yield "| argument | | default |\n| --- | --- | --- |"
        for a in arguments:
            choice = _value(kinds[a.name]) if get_origin(kinds[a.name]) is Literal else _metavar(a)
            yield f"| `{_escaped(choice)}` | {_escaped(a.help or '')} | {_escaped(_default(a))} |"
        yield ""
    if options:
        yield "| option | | default |\n| --- | --- | --- |"
        for o in options:
            names = ", ".join(f"`{opt}`" for opt in sorted(o.opts, key=len))
            value = "" if o.is_flag else f" `{_escaped(o.metavar or _value(kinds[o.name]))}`"
            yield f"| {names}{value} | {_escaped(o.help or '')} | {_escaped(_default(o))} |"
        yield ""


def _value(kind: object) -> str:
    """What stands for a value of a type where the option does not say it."""
    if get_origin(kind) is Literal:
        return "|".join(map(str, get_args(kind)))
    names: dict[object, str] = {int: "N", float: "NUMBER", Path: "PATH"}
    return names.get(kind, "TEXT")


def _metavar(param: Param) -> str:
    return str(param.metavar or param.name.upper()).strip("[]")


def _default(param: Param) -> str:
    if param.required:
        return "required"
    if isinstance(param.show_default, str):
        return param.show_default
    if not param.show_default or param.default is None or isinstance(param.default, bool):
        return ""
    if isinstance(param.default, list | tuple):
        return ", ".join(map(str, param.default))
    return str(param.default)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    print(reference().rstrip())
