"""Forms of expressions: whether one may be part of a region, and whether it computes; nodes of the tree."""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import textwrap
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from abw.torch.tracing import layers  # registers what PyTorch's operations mean
from abw.torch.tracing.trace import MEANINGS, base_name

assert layers

# Methods that only change a tensor's shape, or nothing, and that other classes have, too.
WEAK = {
    "size", "dim", "view", "reshape", "squeeze", "unsqueeze", "to", "cpu", "cuda", "float", "contiguous",
    "clone", "flatten", "t", "long",
}  # fmt: skip
METHODS = {n for n in MEANINGS if not n.startswith("__")} | {"size", "dim"}
METHODS |= {f"{n}_" for n in METHODS}
METHODS -= {
    "type", "int", "bool", "long", "identity", "alias", "clip", "detach", "detach_", "copied", "gathered",
}  # fmt: skip
ATTRIBUTES = {"T", "shape"}
MAKERS = {"zeros", "tensor", "LongTensor", "as_tensor", "zeros_like"}
STATIC = (torch.nn.Module, torch.Tensor, int, float, bool, str, type(None), torch.dtype)
GRADIENT_MODES = {
    id(mode) for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad, torch.set_grad_enabled)
}


class NotFound:
    """What `Forms.static` gives where an expression depends on the instance."""


def _functions() -> dict[int, Any]:
    found = {}
    for space in (torch, F, torch._C._nn, torch.special, torch.linalg):
        for name in MEANINGS:
            thing = getattr(space, name, None)
            if callable(thing) and name not in ("detach", "copied", "gathered"):
                found[id(thing)] = thing
    for name in MAKERS:
        found[id(getattr(torch, name))] = getattr(torch, name)
    found[id(torch.autograd.Variable)] = torch.autograd.Variable
    return found


FUNCTIONS = _functions()


@dataclass
class Marks:
    """Facts about a function: names that hold no tensors, and lines to leave out of regions."""

    structural: set[str] = field(default_factory=set)
    lines: set[int] = field(default_factory=set)


# What calls with keywords call of a module's stand-in, which takes its arguments in order.
CALLED = "called_"
CONTAINERS = (list, dict, set, deque, OrderedDict, defaultdict)
MUTATORS = {
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft",
    "remove", "reverse", "setdefault", "sort", "update",
}  # fmt: skip


@cache
def changed_attributes(cls: type) -> tuple[frozenset[str], frozenset[str]]:
    """Attributes that methods other than __init__ may assign, and those whose containers they may change."""
    assigned, changed = set[str](), set[str]()
    for base in cls.__mro__:
        if base.__module__.startswith("torch.") or base is object:
            continue
        for name, thing in vars(base).items():
            function = getattr(thing, "__func__", getattr(thing, "fget", None) or thing)
            function = inspect.unwrap(function) if callable(function) else function
            if name != "__init__" and isinstance(function, types.FunctionType):
                _changes(function.__code__, assigned, changed)
    return frozenset(assigned), frozenset(changed)


def _changes(code: types.CodeType, assigned: set[str], changed: set[str]) -> None:
    """Note what code may change; whose attribute it is, code does not say."""
    found = list(dis.get_instructions(code))
    assigned.update(str(i.argval) for i in found if i.opname in ("STORE_ATTR", "DELETE_ATTR"))
    if {"setattr", "delattr", "__dict__"} & set(code.co_names):
        assigned.update(c for c in code.co_consts if isinstance(c, str))
    if MUTATORS & set(code.co_names) or any(i.opname in ("STORE_SUBSCR", "DELETE_SUBSCR") for i in found):
        changed.update(str(i.argval) for i in found if i.opname == "LOAD_ATTR" or i.opname == "LOAD_METHOD")
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            _changes(inner, assigned, changed)


class Forms:
    """The forms of a function's expressions. `owner`: the module that it is a method of."""

    def __init__(self, function: Any, owner: Any, marks: Marks) -> None:
        """Errors: OSError, SyntaxError where the source cannot be read."""
        self.function, self.owner, self.marks = function, owner, marks
        self.assigned = changed_attributes(owner.__class__)[0] if owner is not None else frozenset()
        self.globals = function.__globals__
        self.free = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        ast.increment_lineno(tree, function.__code__.co_firstlineno - 1)
        found = tree.body[0]
        if not isinstance(found, ast.FunctionDef) or found.name != function.__name__:
            raise OSError("it is no function of its own")
        self.tree: Any = found
        self.tree.decorator_list = []
        self.me = found.args.args[0].arg if owner is not None and found.args.args else None
        self.locals = _locals(found)
        # what was taken for a constant: (a function that looks again, the value)
        self.watched: dict[Any, tuple[Any, Any]] = {}

    def static(self, e: ast.expr) -> Any:
        """The object that an expression means for every instance; NotFound otherwise."""
        if isinstance(e, ast.Name):
            if e.id == self.me:
                return self.owner
            if e.id in self.locals:
                return NotFound
            if e.id in self.free:
                try:
                    return self._noted(
                        e.id, self.free[e.id].cell_contents, lambda: self.free[e.id].cell_contents
                    )
                except ValueError:
                    return NotFound
            found = self.globals.get(e.id, getattr(builtins, e.id, NotFound))
            return self._noted(e.id, found, lambda: self.globals.get(e.id))
        if isinstance(e, ast.Attribute):
            of = self.static(e.value)
            if of is self.owner and self.owner is not None and e.attr in self.assigned:
                return NotFound
            if isinstance(of, torch.nn.Module | types.ModuleType):
                found = getattr(of, e.attr, NotFound)
                return self._noted((id(of), e.attr), found, lambda: getattr(of, e.attr, None))
        if isinstance(e, ast.Subscript) and isinstance(e.slice, ast.Constant):
            of = self.static(e.value)
            if isinstance(of, torch.nn.ModuleList | torch.nn.ModuleDict | torch.nn.Sequential):
                try:
                    return of[e.slice.value]
                except (KeyError, IndexError, TypeError):
                    return NotFound
        return NotFound

    def _noted(self, key: Any, found: Any, again: Callable[[], Any]) -> Any:
        """Note a number, a text or a module that is taken as it is now."""
        if isinstance(found, int | float | str | torch.nn.Module):
            self.watched[key] = again, found
        return found

    def changes_gradients(self, e: ast.expr) -> bool:
        """Whether a `with` statement's context switches gradients off or on."""
        return id(self.static(e.func if isinstance(e, ast.Call) else e)) in GRADIENT_MODES

    def operation(self, call: ast.Call) -> int:
        """2 for an operation on tensors, 1 for one that only changes shapes, 0 for any other call."""
        found = self.static(call.func)
        if found is not NotFound:
            if id(found) in FUNCTIONS:
                return 1 if getattr(found, "__name__", "") in MAKERS else 2
            if isinstance(found, torch.nn.Module) and found is not self.owner:
                return 0 if any(map(_keeps_apart, found.modules())) else 2
            return int(found is len)
        if isinstance(call.func, ast.Attribute) and call.func.attr in METHODS:
            if self.owner is not None and self.static(call.func.value) is self.owner:
                return 0
            if self.pure(call.func.value):
                return 1 if call.func.attr in WEAK else 2
        return 0

    def pure(self, e: ast.expr) -> bool:
        """Whether an expression may be part of a region."""
        if getattr(e, "lineno", None) in self.marks.lines and not isinstance(e, ast.Name | ast.Constant):
            return False
        match e:
            case ast.Constant():
                return True
            case ast.Name():
                if e.id == self.me or e.id in self.marks.structural:
                    return False
                return e.id in self.locals or isinstance(self.static(e), int | float | bool | type(None))
            case ast.Attribute():
                found = self.static(e)
                if found is not NotFound:
                    return isinstance(found, STATIC) or id(found) in FUNCTIONS
                if self.static(e.value) is not NotFound:
                    return False
                if e.attr == "values" and isinstance(e.value, ast.Call):
                    return self.pure(e.value)
                return e.attr in ATTRIBUTES and self.pure(e.value)
            case ast.Subscript():
                return self.pure(e.value) and self._constant_index(e.slice)
            case ast.Call():
                arguments = [a.value if isinstance(a, ast.Starred) else a for a in e.args]
                return (
                    self.operation(e) > 0
                    and all(map(self.pure, arguments))
                    and all(k.arg is not None and k.arg != "out" and self.pure(k.value) for k in e.keywords)
                )
            case ast.BinOp():
                return self.pure(e.left) and self.pure(e.right)
            case ast.UnaryOp():
                return not isinstance(e.op, ast.Not) and self.pure(e.operand)
            case ast.Tuple() | ast.List():
                return all(map(self.pure, e.elts))
            case ast.Starred():
                return self.pure(e.value)
        return False

    def _constant_index(self, s: ast.expr) -> bool:
        match s:
            case ast.Constant():
                return True
            case ast.UnaryOp():
                return isinstance(s.operand, ast.Constant)
            case ast.Slice():
                ends = (s.lower, s.upper, s.step)
                return all(
                    x is None or self._constant_index(x) or isinstance(self.static(x), int) for x in ends
                )
            case ast.Tuple():
                return all(map(self._constant_index, s.elts))
            case ast.BinOp():
                return self._constant_index(s.left) and self._constant_index(s.right)
            case ast.Attribute() | ast.Name():
                return isinstance(self.static(s), int)
        return False

    def strength(self, node: ast.AST) -> int:
        """2 where operations compute, 1 for arithmetic or shapes (of whatever it is), 0 for neither."""
        found = 0
        for e in ast.walk(node):
            if isinstance(e, ast.Call):
                found = max(found, self.operation(e))
            elif isinstance(e, ast.BinOp | ast.UnaryOp):
                found = max(found, 1)
        return found


def _keeps_apart(module: torch.nn.Module) -> bool:
    """Whether a module's calls are no part of regions: it keeps state, or loops over a sequence."""
    if isinstance(module, torch.nn.RNNBase | torch.nn.modules.loss._Loss):
        return True
    return not type(module).__module__.startswith("torch.nn") and keeps_state(module)


def keeps_state(module: torch.nn.Module) -> bool:
    """Whether calls of a module may change it."""
    assigned, changed = changed_attributes(module.__class__)
    return bool(assigned) or any(type(module.__dict__.get(name)) in CONTAINERS for name in changed)


def _locals(function: ast.FunctionDef) -> set[str]:
    """All names that a function, or one inside of it, assigns."""
    names = set[str]()
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            names.add(node.id)
        elif (isinstance(node, ast.FunctionDef | ast.ClassDef) and node is not function) or (
            isinstance(node, ast.ExceptHandler) and node.name
        ):
            names.add(node.name or "")
    return names


def reads(node: ast.AST) -> set[str]:
    """The names that are read; also those that an augmented assignment changes."""
    found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    changed = {
        n.target.id for n in ast.walk(node) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)
    }
    return found | changed


def writes(node: ast.AST) -> set[str]:
    """The names that are assigned."""
    return {
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store | ast.Del)
    }


@dataclass
class Piece:
    """A region of a function: its name there, what it reads, its code, and its first line."""

    name: str
    live: list[str]
    body: list[ast.stmt]
    line: int


def at_line(node: Any, like: Any) -> Any:
    return ast.copy_location(node, like)


def load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def target(names: list[str], context: Callable[[], Any]) -> Any:
    if len(names) == 1:
        return ast.Name(names[0], context())
    return ast.Tuple([ast.Name(n, context()) for n in names], context())


def writes_in_place(s: ast.stmt) -> bool:
    """Whether a statement may write into a tensor: `x.add_(y)`, `x[i] = y`, `x += y`."""
    return isinstance(s, ast.AugAssign) or any(
        (isinstance(n, ast.Attribute) and n.attr.endswith("_") and not n.attr.startswith("_"))
        or (isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store))
        for n in ast.walk(s)
    )


def code_writes(function: Any) -> bool:
    """Whether a function of the user's calls operations in place, as `x.add_(y)`."""
    code = getattr(function, "__code__", None)
    return code is not None and any(base_name(n) != n and base_name(n) in MEANINGS for n in code.co_names)


def is_torchs(module: torch.nn.Module) -> bool:
    """Whether a stand-in of one function is made for a module."""
    apart = torch.nn.RNNBase | torch.nn.modules.loss._Loss
    return type(module).__module__.startswith("torch.nn") and not isinstance(module, apart)


def contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


class Pending(ast.stmt):
    """A region still to be written: its statements, the names it reads before it writes, and writes."""

    _fields = ()

    def __init__(self, run: list[Any]) -> None:
        super().__init__()
        self.run, self.live, self.written = run, list[str](), set[str]()
        self.lineno, self.col_offset = run[0].lineno, run[0].col_offset
