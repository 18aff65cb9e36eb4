"""Rewrites the functions of a model and keeps what is learnt while they run."""

from __future__ import annotations

import dis
import traceback
import types
from typing import Any

import torch

from abw.core.base.errors import AbwError
from abw.torch.recording.cells import Cells
from abw.torch.recording.regions import Region
from abw.torch.rewriting.forms import Marks, Piece
from abw.torch.rewriting.outline import Outliner
from abw.torch.rewriting.shadows import (
    Recurrent,
    Shadow,
    TracedSpace,
    is_instance,
    length,
    module_stand_in,
    torch_module,
    variable,
)


class Rewriter:
    """A model's functions with regions in the place of their tensor operations.

    `again` says that something was learnt that they have to be rewritten for.
    """

    def __init__(self, cells: Cells, method: str) -> None:
        self.cells, self.method = cells, method
        self.space = torch_module(cells)
        self._traced = TracedSpace(cells, lambda: cells.traces[-1])
        self.again = True
        self.times = 0
        self.unwritten: dict[str, str] = {}
        self.modes: dict[str, None] = {}
        self._marks: dict[Any, Marks] = {}
        self._names = {id(m): n for n, m in cells.model.named_modules()}

    def build(self) -> Any:
        """Rewrite all functions; returns the function of the arguments of an instance."""
        self.again, self.times = False, self.times + 1
        self.cells.regions.clear()
        self.cells.ops.clear()
        self.cells.elements.clear()
        self.modes.clear()
        self._watched: list[tuple[Any, Any]] = []
        self.scopes: dict[int, dict[str, Any]] = {}
        # Globals of functions that are attributes of modules, by these.
        self.direct: dict[int, list[tuple[dict[str, Any], dict[str, str]]]] = {}
        self._shadows: dict[int, Shadow] = {}
        self._modules: dict[int, Any] = {}
        self._helpers: dict[int, Any] = {}
        root = self.shadow(self.cells.model)
        call, make = root.type.__call__, root.make

        def run(args: Any) -> Any:
            return call(make(), *args)

        return run

    def shadow(self, module: torch.nn.Module) -> Shadow:
        """What stands for a module of the user's."""
        if id(module) not in self._shadows:
            found = self._shadows[id(module)] = Shadow(self, module)
            found.fill(self.method if module is self.cells.model else "forward")
        return self._shadows[id(module)]

    def stand_in(self, child: torch.nn.Module) -> Any:
        """What stands for a module that another has: a `Shadow` for one of the user's."""
        if type(child) is torch.nn.ModuleList:
            return [self.part(c) for c in child]
        if type(child) is torch.nn.ModuleDict:
            return {k: self.part(c) for k, c in child.items()}
        if type(child) is torch.nn.ParameterList:
            return [self.cells.parameter(p) for p in child]
        if type(child) is torch.nn.ParameterDict:
            return {k: self.cells.parameter(p) for k, p in child.items()}
        theirs = type(child).__module__.startswith("torch.nn")
        return self.module(child) if theirs else self.shadow(child)

    def part(self, child: torch.nn.Module) -> Any:
        """The same, made for all instances."""
        found = self.stand_in(child)
        return found.make() if isinstance(found, Shadow) else found

    def module(self, module: torch.nn.Module) -> Any:
        """What stands for a module of PyTorch's."""
        if id(module) not in self._modules:
            name = self._names.get(id(module), type(module).__name__)
            if isinstance(module, torch.nn.RNNBase):
                self._modules[id(module)] = Recurrent(self.cells, module, name)
            elif isinstance(module, torch.nn.modules.loss._Loss):
                self._modules[id(module)] = module  # its function is recorded
            else:
                self._modules[id(module)] = module_stand_in(self.cells, module, name, self.part)
        return self._modules[id(module)]

    def methods(self, cls: type, owner: torch.nn.Module) -> dict[str, Any]:
        """The rewritten methods of a class and of those that it is derived from."""
        found: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            if base.__module__.startswith("torch.") or base is object:
                continue
            for name, thing in vars(base).items():
                if isinstance(thing, types.FunctionType) and (
                    not name.startswith("__") or name == "__call__"
                ):
                    found[name] = self.function(thing, owner)
                elif isinstance(thing, staticmethod) and isinstance(thing.__func__, types.FunctionType):
                    found[name] = staticmethod(self.function(thing.__func__, None))
        return found

    def function(self, function: Any, owner: Any) -> Any:
        """A user's function with regions; one that cannot be rewritten records operation by operation."""
        if function.__code__.co_name == "decorate_context":
            self.modes[_place(getattr(function, "__wrapped__", function))] = None
        if hasattr(function, "__wrapped__"):
            return function
        if _assigns_globals(function.__code__):
            raise AbwError(
                f"{_place(function)}: {function.__qualname__} assigns a global variable",
                hint="keep it on self, or in an object that the function changes",
            )
        self.scopes[id(function.__globals__)] = function.__globals__
        scope = self._scope(function)
        marks = self._marks.setdefault((function, id(owner)), Marks())
        try:
            outliner = Outliner(function, owner, marks)
            found = outliner.rewritten(scope)
        except (OSError, TypeError, SyntaxError, StopIteration) as error:
            self.unwritten[function.__qualname__] = str(error)
            made = types.FunctionType(
                function.__code__, scope, function.__name__, function.__defaults__, function.__closure__
            )
            made.__kwdefaults__ = function.__kwdefaults__
            return made
        self._watched += outliner.watched.values()
        self.direct.setdefault(id(owner), []).append((scope, outliner.direct))
        for line in outliner.modes:
            self.modes[f"{function.__code__.co_filename}:{line}"] = None
        traced = {name: self._traced if thing is self.space else thing for name, thing in scope.items()}
        traced["len"] = length
        for piece in outliner.pieces:
            scope[piece.name] = self._region(function, outliner.body_of(piece, traced), piece, marks, scope)
        return found

    def _region(self, function: Any, body: Any, piece: Piece, marks: Marks, scope: dict[str, Any]) -> Any:
        file = function.__code__.co_filename

        def install(found: Any) -> None:
            scope[piece.name] = found

        def blame(region: Region, how: str, paths: list[Any], error: Exception) -> bool:
            if how == "structural":
                names = {piece.live[path[0]] for path in paths}
                new = bool(names - marks.structural)
                marks.structural |= names
            else:
                mine = range(piece.line, 1 + max(getattr(s, "end_lineno", piece.line) for s in piece.body))
                frames = [*traceback.extract_tb(error.__traceback__), *getattr(error, "frames", ())]
                lines = [f.lineno for f in frames if f.filename == file and f.lineno in mine]
                blamed = {lines[0]} if lines else set(mine)
                new = bool(blamed - marks.lines)
                marks.lines.update(line for line in blamed if line)
            if new:
                self.again = self.cells.stale = True
            return new

        name = f"{function.__qualname__}, line {piece.line}"
        return Region(self.cells, body, name, install=install, blame=blame, where=f"{file}:{piece.line}").slow

    def _scope(self, function: Any) -> dict[str, Any]:
        """A function's globals, with what stands for PyTorch's and for the user's own functions."""
        scope = dict(function.__globals__)
        scope["isinstance"] = is_instance
        names = _names(function.__code__)
        for name, thing in function.__globals__.items():
            if thing is torch:
                scope[name] = self.space
            elif name in names and isinstance(thing, types.ModuleType):
                scope[name] = self.space_of(thing)
            elif thing is torch.autograd.Variable:
                scope[name] = variable
            elif name in names and isinstance(thing, types.FunctionType) and _is_users(thing):
                scope[name] = self.helper(thing)
            elif name in names and getattr(thing, "__module__", "") == "torch":
                scope[name] = getattr(self.space, getattr(thing, "__name__", ""), thing)
        return scope

    def space_of(self, module: types.ModuleType) -> Any:
        """What stands for a module of Python's: for one of the user's with functions that are rewritten."""
        return UsersModule(self, module) if _is_own(getattr(module, "__file__", None) or "") else module

    def helper(self, function: Any) -> Any:
        """A function that is no method, rewritten."""
        key = id(function)
        if key not in self._helpers:
            self._helpers[key] = lambda *args, **kwargs: self._helpers[key](
                *args, **kwargs
            )  # while it is made
            self._helpers[key] = self.function(function, None)
        return self._helpers[key]

    def changed(self) -> bool:
        """Whether a global, a closure's variable or a class's attribute is another than when it was read."""
        return any(again() is not found and again() != found for again, found in self._watched)

    def refuse_modes(self) -> None:
        """Refuse models that switch gradients off or on, where they are wanted. Errors: AbwError."""
        if self.modes and self.cells.learns():
            raise AbwError(
                f"{next(iter(self.modes))}: gradients are switched off or on inside of the model",
                hint="compute that outside of the model, or call the model in torch.no_grad()",
            )


def _assigns_globals(code: types.CodeType) -> bool:
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    own = any(i.opname in ("STORE_GLOBAL", "DELETE_GLOBAL") for i in dis.get_instructions(code))
    return own or any(map(_assigns_globals, inner))


def _place(function: Any) -> str:
    return f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"


def _is_users(function: Any) -> bool:
    """Whether a function is none of PyTorch's, Python's, or of installed packages."""
    return _is_own(function.__code__.co_filename)


def _is_own(file: str) -> bool:
    return (
        file != ""
        and "site-packages" not in file
        and "/lib/python" not in file
        and not file.startswith("<frozen")
    )


class UsersModule:
    """A module of the user's as rewritten functions see it."""

    def __init__(self, rewriter: Rewriter, module: types.ModuleType) -> None:
        self.__dict__.update(_rewriter=rewriter, _module=module)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if isinstance(found, types.ModuleType):
            return self._rewriter.space if found is torch else self._rewriter.space_of(found)
        users = isinstance(found, types.FunctionType) and _is_users(found)
        return self._rewriter.helper(found) if users else found

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._module, name, value)


def _names(code: types.CodeType) -> set[str]:
    """The names that code uses, with those of the functions inside of it."""
    return set(code.co_names).union(*(_names(c) for c in code.co_consts if isinstance(c, types.CodeType)))
