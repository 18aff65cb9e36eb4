"""Turns the Python that records a region into instructions of the machine-code recorder."""

from __future__ import annotations

import ast
import ctypes
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import torch

from abw.core.program.recording.machine_code import OBJECT
from abw.core.program.recording.recorder import Call, Callee
from abw.core.program.recording.values import BITS, Value
from abw.torch.recording.library import TableRows
from abw.torch.recording.standins import Concat, Stack, the_one

BUILTINS = {"list": list, "tuple": tuple, "int": int}
# Whole numbers that CPython has one object for, each.
SMALL = range(-5, 257)


class UnsupportedError(Exception):
    """The Python code does what no instruction does."""


@cache
def fields_of(cls: type) -> tuple[str, ...]:
    """The slots of a class in the order in which they lie behind an object's head."""
    names = [name for base in cls.__mro__ for name in vars(base).get("__slots__", ())]
    probe: Any = object.__new__(cls)
    marks = {name: object() for name in names}
    for name, mark in marks.items():
        object.__setattr__(probe, name, mark)
    words = (ctypes.c_int64 * len(names)).from_address(id(probe) + OBJECT)
    place = {id(mark): name for name, mark in marks.items()}
    return tuple(place[word] for word in words)


def assembled(
    names: Sequence[str], tests: Sequence[str], body: Sequence[str], scope: dict[str, Any], callees: Any
) -> Callable[[Call], Call] | None:
    """What makes a function of arguments with these names, which leaves others to another function.

    It does what `if tests: body` does; `callees` are the cells by their names in `scope`. None where there
    are no instructions for it.
    """
    made = _Assembler(names, scope, callees)
    try:
        for test in tests:
            made.test(ast.parse(test, mode="eval").body)
        for statement in ast.parse("\n".join(body)).body:
            made.statement(statement)
    except (UnsupportedError, KeyError):  # KeyError: a name that is none of those known
        return None
    rooms = made.used, len(made.operands), len(made.program)
    recorder = scope["cells"].session.recorder
    return partial(recorder.callable_region, "region(*values)", len(names), made.program, rooms, made.held)


class _Assembler:
    def __init__(self, names: Sequence[str], scope: dict[str, Any], callees: dict[str, Callee]) -> None:
        self.scope, self.callees = scope, callees
        self.program: list[tuple[str | int, ...]] = []
        self.held: list[Any] = []
        # Python that reads an object: its register, or what class it is to be of, which is not looked at yet.
        self.registers = {name: i for i, name in enumerate(names)}
        self.used = len(names)
        self.wanted: dict[str, Any] = {}
        # By the names of values: Python that reads it, or operands and classes.
        self.sources: dict[str, str] = {}
        self.operands: dict[str, int] = {}
        self.classes: dict[str, Any] = {}

    def at(self, thing: Any) -> int:
        """The address of an object, which is kept."""
        self.held.append(thing)
        return id(thing)

    def register(self, path: str) -> int:
        if path not in self.registers:
            raise UnsupportedError
        return self.registers[path]

    def taken(self, paths: Sequence[str]) -> int:
        """Registers for what is read by these; the first one."""
        begin = self.used
        self.registers |= {path: begin + i for i, path in enumerate(paths)}
        self.used += len(paths)
        return begin

    def operand(self, name: str) -> int:
        return self.operands.setdefault(name, len(self.operands))

    def test(self, e: Any) -> None:
        """What holds of the arguments."""
        tensor = ast.unparse(e).partition(".__class__ is Tensor and ")
        if tensor[1]:
            if tensor[2] != f"{tensor[0]}.dtype is float32 and (not {tensor[0]}.requires_grad)":
                raise UnsupportedError
            self.wanted[tensor[0]] = torch.Tensor
            return
        match e:
            case ast.BoolOp(ast.And(), parts):
                for part in parts:
                    self.test(part)
            case ast.Compare(ast.Attribute(x, "__class__"), [ast.Is()], [ast.Name(name)]):
                path, cls = ast.unparse(x), BUILTINS.get(name) or self.scope.get(name)
                if cls in (Stack, Concat):
                    fields = fields_of(cls)
                    words = self.register(path), self.at(cls), len(fields)
                    self.program.append(
                        ("fields", *words, self.taken([f"{path}.{field}" for field in fields]))
                    )
                    if cls is Stack:
                        self.wanted[f"{path}.rows"] = list
                    else:  # `value()` is what it was copied to
                        self.registers[f"{path}.value()"] = self.registers[f"{path}._value"]
                elif isinstance(cls, type) and issubclass(cls, (list, tuple, int, Value)):
                    self.wanted[path] = cls
                else:
                    raise UnsupportedError
            case ast.Compare(ast.Call(ast.Name("len"), [x]), [ast.Eq()], [ast.Constant(int(n))]):
                path = ast.unparse(x)
                kind = self.wanted.pop(path, tuple if path.endswith(".parts") else None)
                if kind not in (list, tuple):
                    raise UnsupportedError
                to = self.taken([f"{path}[{i}]" for i in range(n)])
                self.program.append(("items", self.register(path), id(kind), n, to))
            case ast.Compare(x, [ast.Eq()], [ast.Constant(int(thing))]) if thing in SMALL:
                self.same(ast.unparse(x), thing)
            case ast.Compare(ast.Attribute(_, "ends") as x, [ast.Eq()], [wanted]):
                self.same(ast.unparse(x), the_one(ast.literal_eval(wanted)))
            case ast.Compare(ast.Attribute(x, "shape"), [ast.Eq()], [ast.Name(name)]):
                path, cells = ast.unparse(x), self.scope["cells"]
                cls, made = cells.value_class(self.scope[name]), f"given({path})"
                if self.wanted.pop(path, None) is not torch.Tensor:
                    raise UnsupportedError
                words = self.at(cls), self.operand(made), self.at(cells.brought)
                self.program.append(("given", self.register(path), *words))
                self.classes[made] = cls, False
            case ast.Compare(x, [ast.Is()], [ast.Constant(thing)]):
                self.same(ast.unparse(x), thing)
            case ast.Compare(x, [ast.Is()], [ast.Name(name)]):
                self.same(ast.unparse(x), self.scope[name])
            case _ if self.wanted.get(ast.unparse(e)) in (list, tuple):
                pass  # a list of one value at least, as all that are read
            case _:
                raise UnsupportedError

    def same(self, path: str, thing: Any) -> None:
        """An object that is to be another one."""
        self.program.append(("same", self.register(path), self.at(thing)))
        self.wanted.pop(path, None)

    def value(self, name: str, cls: Any, several: bool = False) -> int:
        """The operand of a value, or of a list of values, that is of a class."""
        if name in self.operands:
            if self.classes[name] != (cls, several):
                raise UnsupportedError
            return self.operands[name]
        path = self.sources.get(name, name)
        looked = f"{path}[0]" if several else path
        if self.wanted.pop(looked, cls) is not cls:
            raise UnsupportedError
        if several:
            self.wanted.pop(path, None)
        words = self.register(path), self.at(cls), self.operand(name)
        self.program.append(("values", *words, 1) if several else ("value", *words))
        self.classes[name] = cls, several
        return words[2]

    def statement(self, s: Any) -> None:
        match s:
            case ast.Assign([ast.Name(name)], ast.Subscript(ast.Name(table), row)) if table in self.scope:
                self.row(name, self.scope[table], ast.unparse(row))
            case ast.Assign(
                [ast.Name(name)], ast.Name() | ast.Attribute() | ast.Subscript() | ast.Call(args=[])
            ):
                self.sources[name] = ast.unparse(s.value)
            case ast.Assign([ast.Name(name)], ast.Call(ast.Name("given"))):
                made = ast.unparse(s.value)
                if made not in self.operands:
                    raise UnsupportedError
                self.operands[name], self.classes[name] = self.operands[made], self.classes[made]
            case ast.Assign([targets], value):
                names = [ast.unparse(t) for t in getattr(targets, "elts", [targets])]
                self.call(names, value)
            case ast.Expr(ast.BoolOp(ast.Or(), [ast.Compare(), ast.Call(ast.Name("same_length"))])):
                pass  # lists that cells take together are looked at there
            case ast.Return(ast.Subscript(ast.Name(table), row)) if table in self.scope:
                self.row("result0", self.scope[table], ast.unparse(row))
                self.result(ast.Name("result0"))
            case ast.Return(value):
                self.result(value)
            case _:
                raise UnsupportedError

    def row(self, name: str, table: Any, path: str) -> None:
        """A row of a table."""
        if type(table) is not TableRows or self.wanted.pop(path, int) is not int:
            raise UnsupportedError
        self.classes[name] = table.cls, False
        begin = (-1 - table.first << BITS) + table.cls.kind_
        self.program.append(("row", self.register(path), self.operand(name), begin, table.count))

    def call(self, names: Sequence[str], e: Any) -> None:
        """Calls of a cell, or of a reduction."""
        over, arguments = -1, e.args if isinstance(e, ast.Call) else []
        match e:
            case ast.IfExp(body=ast.Call(ast.Name(function), [ast.Name(rows)])) if function in self.callees:
                callee = self.callees[function]
                ((_, cls),) = callee.inputs
                words = callee.number, self.value(rows, cls, True), self.operand(names[0]), callee.added[0]
                self.program.append(("reduce", *words))
                self.classes[names[0]] = cls, False
                return
            case ast.Call(ast.Name("list"), [ast.Call(ast.Name("map"), [ast.Name(function), *arguments])]):
                over = 0
            case ast.Call(
                ast.Name("map"),
                [
                    ast.Name("list"),
                    ast.Call(ast.Name("zip"), [ast.Starred(ast.Call(ast.Name("map"), inner))]),
                ],
            ):
                function, arguments, over = ast.unparse(inner[0]), inner[1:], 0
            case ast.Call(ast.Name(function), arguments):
                pass
            case _:
                raise UnsupportedError
        found = self.callees.get(function)
        if found is None or len(found.outputs) != len(names):
            raise UnsupportedError
        reads, lists = [], []
        for (_, cls), x in zip(found.inputs, arguments, strict=True):
            several = over == 0 and not isinstance(x, ast.Call)  # else it is `repeat(x)`
            one = x.args[0] if isinstance(x, ast.Call) else x
            reads.append(self.value(ast.unparse(one), cls, several))
            if several:
                lists.append(reads[-1])
        for other in lists[1:]:
            self.program.append(("alike", lists[0], other))
        made = [word for n, a in zip(names, found.added, strict=True) for word in (self.operand(n), a)]
        over = lists[0] if lists else -1
        self.program.append(("cell", found.number, len(reads), len(names), over, *reads, *made))
        self.classes |= {n: (cls, over >= 0) for n, cls in zip(names, found.outputs, strict=True)}

    def result(self, e: Any) -> None:
        """What is returned, made when all is recorded."""
        if isinstance(e, ast.Call) and ast.unparse(e.func) in self.callees:
            outputs = self.callees[ast.unparse(e.func)].outputs
            names = [f"result{i}" for i in range(len(outputs))]
            self.call(names, e)
            made = [ast.Name(name) for name in names]
            e = made[0] if len(made) == 1 else ast.Tuple(list(made))
        later: list[Any] = []
        self.made(e, later)
        for path, cls in list(self.wanted.items()):
            if cls in (*BUILTINS.values(), torch.Tensor):
                raise UnsupportedError
            self.value(path, cls)
        self.program.append(("commit",))
        self.program += [*later, ("return",)]

    def made(self, e: Any, to: list[Any]) -> None:
        """Instructions that make a result of values, added to `to`."""
        if ast.unparse(e) in self.operands:  # of a tensor that is given
            e = ast.Name(ast.unparse(e))
        match e:
            case ast.Name(name) if name in self.operands and name not in self.sources:
                cls, several = self.classes[name]
                to.append(("all" if several else "made", self.operands[name], self.at(cls)))
            case ast.Name("cells"):
                to.append(("constant", self.at(self.scope["cells"])))
            case ast.Name() | ast.Subscript() | ast.Attribute():
                path = ast.unparse(e)
                to.append(("held", self.register(self.sources.get(path, path))))
            case ast.Constant(thing):
                to.append(("constant", self.at(thing)))
            case ast.Call(ast.Name("list"), [ast.Name(name)]):
                cls = self.wanted.get(f"{self.sources.get(name, name)}[0]")
                cls = self.classes[name][0] if cls is None else cls
                to.append(("all", self.value(name, cls, True), self.at(cls)))
            case ast.Call(ast.Name("len"), [ast.Name(name)]) if name in self.operands:
                to.append(("length", self.operands[name]))
            case ast.Tuple(parts) | ast.List(parts):
                for part in parts:
                    self.made(part, to)
                to.append(("sequence", int(isinstance(e, ast.List)), len(parts)))
            case ast.Call(ast.Name("Stack" | "Concat" as name), parts):
                kind: Any = self.scope[name]
                given = dict(zip(kind.TAKES, parts, strict=True))
                for field in fields_of(kind):
                    if name == "Concat" and field == "ends":
                        to.append(("constant", self.at(the_one(ast.literal_eval(given[field])))))
                    else:
                        self.made(given.get(field, ast.Constant(None)), to)
                to.append(("object", self.at(kind), len(fields_of(kind))))
            case _:
                raise UnsupportedError
