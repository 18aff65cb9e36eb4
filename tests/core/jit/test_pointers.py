"""Addresses are there as long as what lies at them: pointers and tables, and no address kept elsewhere."""

from __future__ import annotations

import ast
import ctypes
import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from abw.core.jit.pointers import Pointer, Table, address

PRODUCT = ("abw", "bench", "cli", "core", "pqtree", "viz")
MODULE = "abw.core.jit.pointers"
EXEMPT = {
    "core/jit/pointers.py": "keeps what lies there",
    "core/build/library.py": "compares addresses with each other, and reads the arrays that tables keep",
    "core/exec/cpu/llvm/walker.py:note_plan": "is compiled; its caller keeps the plan",
    "core/program/recording/machine_code.py:machine_function": "keeps the table beside its address",
}
# Calls that give back what they are given, or keep it, or call later.
GIVE_BACK = {
    *("add", "add_done_callback", "apply_async", "call_later", "call_soon", "call_soon_threadsafe", "insert"),
    *("put", "put_nowait", "submit"),
    *("append", "bool", "dict", "extend", "float", "frozenset", "int", "list", "max", "min", "partial"),
    *("replace", "set", "setattr", "setdefault", "sorted", "sum", "tuple", "update"),
}


class Checker:
    """Finds addresses in a Python text that outlive the call that they are an argument of."""

    def __init__(self, text: str, path: str = "") -> None:
        self.tree, self.path = ast.parse(text), path
        self.above = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}
        imported = [n for n in ast.walk(self.tree) if isinstance(n, ast.ImportFrom) and n.module == MODULE]
        names = [name for node in imported for name in node.names]
        self.known = {name.name for name in names}
        self.found = [f"{name.lineno}: {name.name} is called otherwise" for name in names if name.asname]
        self.found += [f"{node.lineno}: the module is imported whole" for node in self._whole()]

    def _whole(self) -> Iterator[ast.stmt]:
        """Imports that would let the function have another name."""
        package, _, module = MODULE.rpartition(".")
        for node in ast.walk(self.tree):
            match node:
                case ast.Import(names=names) if any(name.name == MODULE for name in names):
                    yield node
                case ast.ImportFrom(module=source, names=names) if (source, "*") in {
                    (MODULE, name.name) for name in names
                } or (source == package and any(name.name == module for name in names)):
                    yield node

    def check(self) -> list[str]:
        """Each with its line."""
        for node in ast.walk(self.tree):
            if self._exempt(node):
                continue
            if isinstance(node, ast.Name) and node.id == "address" and "address" in self.known:
                if not self._called(node) and not self._mapped(node):
                    self.found.append(f"{node.lineno}: `address` is handed on")
            elif (holder := self._holder(node)) is not None and not self._only_remainder(node):
                assert isinstance(node, ast.expr)
                if not self._held(node, holder):
                    self.found.append(f"{node.lineno}: the address of what no name holds")
                elif not self._only_argument(node) and not self._constant(holder):
                    self.found.append(f"{node.lineno}: the address outlives its call")
        return self.found

    def _holder(self, node: ast.AST) -> ast.expr | None:
        """Of an expression that is an address: whose."""
        match node:
            case ast.Call(func=ast.Name(id="address"), args=[array, *_]) if "address" in self.known:
                return array
            case ast.Call(func=ast.Attribute(attr="addressof") | ast.Name(id="addressof"), args=[array, *_]):
                return array
            case ast.Call(
                func=ast.Attribute(attr="data_as", value=ast.Attribute(attr="ctypes", value=array))
            ):
                return array
            case ast.Call(func=ast.Attribute(attr="data_ptr", value=array)):
                return array
            case ast.Attribute(attr="data", value=ast.Attribute(attr="ctypes", value=array)):
                return array
            case ast.Subscript(value=ast.Attribute(attr="__array_interface__", value=array)):
                return array
            case ast.Attribute(attr="at", value=owner) if self.known and not self._called(node):
                return owner
        return None

    def _held(self, node: ast.expr, holder: ast.expr) -> bool:
        """Whether a local name holds what it is the address of; attributes may hold pointers and tables."""
        if isinstance(node, ast.Attribute) and node.attr == "at":
            return not isinstance(holder, ast.Call)
        return isinstance(holder, ast.Name)

    def _constant(self, holder: ast.expr) -> bool:
        return isinstance(holder, ast.Name) and holder.id.isupper()

    def _called(self, node: ast.AST) -> bool:
        up = self.above[node]
        return isinstance(up, ast.Call) and up.func is node

    def _mapped(self, node: ast.AST) -> bool:
        """Whether this is `f(*map(address, arrays))`."""
        match self.above[node]:
            case ast.Call(func=ast.Name(id="map"), args=[_, ast.Name()]) as up:
                return isinstance(star := self.above[up], ast.Starred) and self._only_argument(star)
        return False

    def _only_remainder(self, node: ast.AST) -> bool:
        """Whether no more of an address is used than how far it is from a boundary."""
        while isinstance(up := self.above[node], ast.BinOp | ast.UnaryOp):
            if isinstance(up, ast.BinOp) and isinstance(up.op, ast.Mod) and up.left is node:
                return True
            node = up
        return False

    def _only_argument(self, node: ast.AST) -> bool:
        """Whether an address is an argument of a call, by itself or in a tuple, or compared: no more."""
        while isinstance(up := self.above[node], ast.BinOp | ast.UnaryOp | ast.Tuple | ast.keyword):
            node = up
        if isinstance(up, ast.Compare):
            return True
        if not isinstance(up, ast.Call) or node is up.func:
            return False
        match up.func:
            case ast.Attribute(value=ast.Name(id="np" | "ctypes"), attr=name):
                return name == "memmove"
            case ast.Attribute(attr=name) | ast.Name(id=name):
                return name not in GIVE_BACK and not name.lstrip("_")[:1].isupper()
        return True

    def _exempt(self, node: ast.AST) -> bool:
        return self.path in EXEMPT or any(f"{self.path}:{name}" in EXEMPT for name in self._functions(node))

    def _functions(self, node: ast.AST) -> Iterator[str]:
        while node in self.above:
            node = self.above[node]
            if isinstance(node, ast.FunctionDef):
                yield node.name


def test_no_address_outlives_its_array(root: Path) -> None:
    files = sorted(path for folder in PRODUCT for path in (root / folder).glob("**/*.py"))
    names = [path.relative_to(root).as_posix() for path in files]
    assert len(names) > 500
    found = [
        f"{name}:{said}"
        for name, path in zip(names, files, strict=True)
        for said in Checker(path.read_text(), name).check()
    ]
    assert found == []
    assert {name.partition(":")[0] for name in EXEMPT} <= set(names)


IMPORT = f"from {MODULE} import Pointer, Table, address\n"
BAD = {
    "assigned": "sections = address(bounds)",
    "assigned to an attribute": "self.at = address(bounds)",
    "assigned in a tuple": "sections, taken = address(bounds), numbers",
    "assigned by an expression": "walk(at := address(bounds))",
    "assigned with an offset": "second = address(bounds) + 8",
    "returned": "def f(bounds): return address(bounds)",
    "yielded": "def f(bounds): yield address(bounds)",
    "returned by a lambda": "f = lambda: address(bounds)",
    "a default": "def f(at=address(bounds)): ...",
    "a lambda's default": "f = lambda at=address(bounds): walk(at)",
    "in a list": "walk([address(bounds)])",
    "in a list, one each": "walk([address(b) for b in arrays])",
    "in a dict": "words = {'at': address(bounds)}",
    "in a set": "words = {address(bounds)}",
    "one after the other": "words = (address(b) for b in arrays)",
    "stored": "words[3] = address(bounds)",
    "added": "words[3] += address(bounds)",
    "appended": "words.append(address(bounds))",
    "converted": "at = int(address(bounds))",
    "a number of NumPy's": "at = np.int64(address(bounds))",
    "in an object": "job = Job(address(bounds))",
    "in a partial function": "work = partial(walk, address(bounds))",
    "of work that is done later": "pool.submit(walk, address(bounds))",
    "of what nobody holds": "walk(address(np.array([1, 2])))",
    "of a copy": "walk(address(bounds.astype(np.int32)))",
    "of a part": "walk(address(bounds[1:]))",
    "of an attribute, which others may set": "walk(address(self.bounds))",
    "of two": "walk(address(a if b else c))",
    "mapped": "words = [*map(address, arrays)]",
    "mapped, of what nobody holds": "walk(*map(address, [a.copy() for a in arrays]))",
    "by another name": "take = address",
    "NumPy's": "at = bounds.ctypes.data",
    "NumPy's, returned": "def f(bounds): return int(bounds.ctypes.data)",
    "NumPy's, of what nobody holds": "walk(np.zeros(3).ctypes.data)",
    "NumPy's pointer": "at = bounds.ctypes.data_as(pointer)",
    "NumPy's interface": "at = bounds.__array_interface__['data'][0]",
    "ctypes'": "at = ctypes.addressof(words)",
    "ctypes', of what nobody holds": "walk(ctypes.addressof(Words()))",
    "PyTorch's": "at = tensor.data_ptr()",
    "a pointer's": "self.scratch = pointer.at",
    "a table's, in a list": "words = [table.at]",
    "of a pointer that nobody holds": "walk(Pointer(bounds).at)",
}
GOOD = (
    "walk(address(bounds), 3)",
    "walk(at=address(bounds))",
    "walk((row, address(row), width))",
    "def f(thread): walk(address(bounds))",
    "work = lambda: walk(address(bounds))",
    "sort(*map(address, arrays), 3)",
    "begin = -address(memory) // 4 % 16",
    "ctypes.memmove(room, values.ctypes.data + begin, size)",
    "same = one.ctypes.data == other.ctypes.data",
    "slot = Slot(ctypes.addressof(_MEMBER))",
    "walk(self.table.at, self.scratch[0].at)",
    "scratch = Pointer(bounds)",
    "table.point(3, bounds)",
    "place = f.at(base, row)",
)


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_what_outlives_its_array_is_refused(text: str) -> None:
    assert len(Checker(IMPORT + text).check()) >= 1


def test_another_name_is_refused() -> None:
    assert Checker(f"from {MODULE} import address as where\nat = where(bounds)").check()


@pytest.mark.parametrize(
    "text",
    [
        "from {0} import {1}\nat = {1}.address(bounds)",
        "import {0}.{1} as p\nat = p.address(bounds)",
        "from {0}.{1} import *\nat = address(bounds)",
    ],
)
def test_the_module_is_not_imported_whole(text: str) -> None:
    assert Checker(text.format(*MODULE.rsplit(".", 1))).check()


@pytest.mark.parametrize("text", GOOD)
def test_what_is_held_is_let_pass(text: str) -> None:
    assert Checker(IMPORT + text).check() == []


def gone(array: NDArray[np.int64]) -> weakref.ref[NDArray[np.int64]]:
    return weakref.ref(array)


def test_a_pointer_keeps_its_array() -> None:
    array = np.arange(4)
    pointer, watched = Pointer(array), gone(array)
    assert pointer.at == address(array)
    del array
    gc.collect()
    assert watched() is pointer.owner
    del pointer
    assert watched() is None


@pytest.mark.parametrize("kind", ["numpy", "ctypes"])
def test_a_table_keeps_what_its_words_name_until_they_name_something_else(kind: str) -> None:
    table = Table(np.zeros(3, np.int64) if kind == "numpy" else (ctypes.c_int64 * 3)())
    first, second = np.arange(4), np.arange(5)
    watched = [gone(first), gone(second)]
    table.point(1, first)
    assert list(table.words) == [0, address(first), 0]
    found = (ctypes.c_int64 * 3).from_address(table.at)[1]
    del first
    assert (ctypes.c_int64 * 4).from_address(found)[:] == [0, 1, 2, 3]
    table.point(1, second)
    assert watched[0]() is None
    del second
    assert watched[1]() is not None
    del table
    assert watched[1]() is None


def test_a_table_keeps_what_it_was_spread_over_and_copied_from() -> None:
    table, common, outer = (Table(np.zeros(4, np.int64)) for _ in range(3))
    block, array = np.zeros((3, 5), np.int64), np.arange(3)
    watched = [gone(block), gone(array)]
    table.spread(np.array([0, 2]), block, np.array([8, 40]))
    common.words[0] = 7
    common.point(1, array)
    table.copy(np.array([1, 3]), Table(common.words[:2], common))
    assert table.words.tolist() == [address(block) + 8, 7, address(block) + 40, address(array)]
    outer.point(0, table)
    assert outer.words[0] == table.at
    del block, array, common, table
    gc.collect()
    assert all(watch() is not None for watch in watched)
    del outer
    assert all(watch() is None for watch in watched)


def test_a_part_of_an_array_has_an_address_too() -> None:
    whole = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert address(whole[:, 1:3]) == address(whole) + 4
