"""Finds the function that `program.py:function` names, and the net that it runs on.

A file's code is run only where it is named so; nothing that a spec or a stored run says does.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from abw.core.base.errors import AbwError, did_you_mean, missing_file
from abw.core.base.modules import beside
from abw.core.program.load import NetOverrides, overriding, prepare
from abw.core.program.net import Net
from abw.core.program.recording.machine_code import is_machine_function
from abw.core.program.session import DEFAULT_GRANULARITY
from abw.core.script.tracebacks import located
from abw.core.spec.shipped import FOLDER, functions_in

# How a program is named.
FORM = "program.py:function"


@dataclass(frozen=True, slots=True)
class Program:
    """A function of one instance, as `name` names it, its file, and the net that it runs on."""

    name: str
    path: Path
    function: Callable[[Any], Any]
    net: Net

    @property
    def files(self) -> tuple[Path, ...]:
        """The program's file, then those of its library."""
        return (self.path, *self.net.library.files)


def find_file(name: str) -> Path:
    """The file of a program; `programs/parser.py` is one that ships, where there is no such file here.

    Errors: AbwError.
    """
    path = Path(name)
    if path.is_file():
        return path
    if not path.is_absolute() and not path.exists() and (shipped := FOLDER / path).is_file():
        return shipped
    raise AbwError(f"there is no file {name}", hint=missing_file(path), exit_code=2)


@contextmanager
def opened(target: str, overrides: NetOverrides) -> Iterator[Program]:
    """Run the file that a target names, and give its function with its net.

    Modules in the file's folder can be imported, as by `python program.py`, to the end of the block. Errors:
    AbwError where there is no such file or function, with the traceback of what the file raises, for a
    function that takes not one instance, and where not one net is its own.
    """
    name, _, wanted = target.partition(".py")
    path = find_file(f"{name}.py")
    wanted = wanted.removeprefix(":")
    if not wanted:
        known = functions_in(path)
        hint = f"{path}:{known[0]}" if len(known) == 1 else f"{path}:NAME; it has {', '.join(known)}"
        raise AbwError(f"{target} names no function", hint=hint if known else FORM, exit_code=2)
    with beside(path.resolve().parent):
        with overriding(overrides):
            module = _run(path)
        function = _function(module, wanted, path)
        net = _net(module, function, f"{path}:{wanted}")
        yield Program(f"{path}:{wanted}", path, function, net)


def warmed(target: str, overrides: NetOverrides) -> str:
    """Compile all that running a program takes; returns its library's name. Errors: AbwError."""
    with redirect_stdout(sys.stderr), opened(target, overrides) as program:
        prepare(program.net, DEFAULT_GRANULARITY)
        return program.net.library.name


def _run(path: Path) -> ModuleType:
    """Run a file as a module."""
    spec = spec_from_file_location(path.stem, path.resolve())
    assert spec and spec.loader
    module = module_from_spec(spec)
    known = sys.modules.get(spec.name)
    sys.modules[spec.name] = module  # as dataclasses want it
    try:
        with located(f"{path} could not be run"):
            spec.loader.exec_module(module)
    finally:
        if known is not None and getattr(known, "__file__", None) != str(path.resolve()):
            sys.modules[spec.name] = known  # another module has that name: it stays whose it is
    return module


def _function(module: ModuleType, wanted: str, path: Path) -> Callable[[Any], Any]:
    """Look up a name, or several with points between, in a module. Errors: AbwError."""
    found: Any = module
    for part in wanted.split("."):
        if not hasattr(found, part) or isinstance(found, Net):
            names = [n for n, f in vars(module).items() if _own(f, module)] if found is module else dir(found)
            known = [n for n in names if not n.startswith("_")]
            raise AbwError(f"{path} has no function '{wanted}'", hint=did_you_mean(part, known), exit_code=2)
        found = getattr(found, part)
    what = f"{path}:{wanted}"
    if isinstance(found, type):
        message, hint = f"{what} is a class", "name a function, or an object's method: model.forward"
        raise AbwError(message, hint=hint, exit_code=2)
    if not callable(found):
        message = f"{what} is not a function but {type(found).__name__}"
        raise AbwError(message, hint="def f(instance): …", exit_code=2)
    if is_machine_function(found):
        raise AbwError(f"{what} is a cell", hint="a program is a function that calls cells", exit_code=2)
    _require_one(found, what)
    return found  # type: ignore[no-any-return]


def _own(thing: object, module: ModuleType) -> bool:
    """Whether a module's thing is a function of its own, and no cell."""
    return inspect.isfunction(thing) and thing.__module__ == module.__name__ and ".py" in _file_of(thing)


def _file_of(function: Any) -> str:  # noqa: ANN401
    return str(function.__code__.co_filename)


def _require_one(function: Callable[..., Any], what: str) -> None:
    """Refuse a function that cannot be called with one instance. Errors: AbwError."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # written in C
        return
    try:
        signature.bind(None)
    except TypeError:
        count = sum(p.default is p.empty and p.kind < p.VAR_POSITIONAL for p in signature.parameters.values())
        taken = f"takes {count} arguments" if count != 1 else "wants arguments by name"
        message = f"{what}{signature} {taken}: a program is called with one instance"
        hint = (
            "several things in one: def f(pair): source, target = pair" if count > 1 else "def f(instance): …"
        )
        raise AbwError(message, hint=hint, exit_code=2) from None


def _net(module: ModuleType, function: Callable[..., Any], what: str) -> Net:
    """The one net that a function names, else the one of its module. Errors: AbwError."""
    own = _nets(_named_by(function))
    found = own or _nets(vars(module))
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        hint = 'net = abw.cells("cells.yaml") at the top of the file'
        raise AbwError(f"{what} has no net to run on", hint=hint, exit_code=2)
    names = ", ".join(sorted(found))
    verb = "names" if own else "names none of its file's nets:"
    raise AbwError(
        f"{what} {verb} {names}: a program runs on one net",
        hint="one library can hold the cells of several" if own else "write its net's name in the function",
        exit_code=2,
    )


def _nets(things: Mapping[str, object]) -> dict[str, Net]:
    """The nets among named things, each once."""
    found: dict[int, tuple[str, Net]] = {}
    for name, thing in things.items():
        if isinstance(thing, Net):
            found.setdefault(id(thing), (name, thing))
    return dict(found.values())


def _named_by(function: Any) -> dict[str, object]:  # noqa: ANN401
    """What a function's code names: globals, what it closes over, its object's attributes; and that of the
    functions of its module that it names, and so on.
    """
    found: dict[str, object] = {}
    seen: set[int] = set()
    waiting = [function]
    while waiting:
        each = inspect.unwrap(waiting.pop())
        whose = getattr(each, "__self__", None)
        if whose is not None and not isinstance(whose, ModuleType):
            found |= {f"self.{name}": thing for name, thing in getattr(whose, "__dict__", {}).items()}
        each = getattr(each, "__func__", each)
        if not inspect.isfunction(each) or id(each) in seen:
            continue
        seen.add(id(each))
        closed = inspect.getclosurevars(each) if each.__closure__ else None
        named = {name: each.__globals__[name] for name in _names(each.__code__) if name in each.__globals__}
        named |= dict(closed.nonlocals) if closed else {}
        found |= named
        waiting += [thing for thing in named.values() if inspect.isfunction(thing)]
    return found


def _names(code: CodeType) -> set[str]:
    """The names in a function's code, and in those inside of it."""
    inner = (const for const in code.co_consts if isinstance(const, CodeType))
    return {*code.co_names, *(name for each in inner for name in _names(each))}
