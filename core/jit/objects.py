"""Python's objects for compiled functions that hold the interpreter's lock (`decorators.holding`).

All are addresses, borrowed. What these functions call are CPython's own, by their names.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_WORD, _DOUBLE, _INT = ir.IntType(64), ir.DoubleType(), ir.IntType(32)


def _function(name: str, takes: int) -> Any:  # noqa: ANN401 (numba's)
    """A function of so many 64-bit integers and addresses that returns one."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:  # noqa: ANN401
        kind = ir.FunctionType(_WORD, [_WORD] * takes)
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), given)  # type: ignore[no-untyped-call]

    signature = types.int64(*[types.int64] * takes)

    def one(context: Any, a: Any) -> Any:  # noqa: ANN401
        return signature, generate

    def two(context: Any, a: Any, b: Any) -> Any:  # noqa: ANN401
        return signature, generate

    def four(context: Any, a: Any, b: Any, c: Any, d: Any) -> Any:  # noqa: ANN401
        return signature, generate

    return intrinsic({1: one, 2: two, 4: four}[takes])


tuple_size, list_size = _function("PyTuple_Size", 1), _function("PyList_Size", 1)
tuple_item, list_item = _function("PyTuple_GetItem", 2), _function("PyList_GetItem", 2)
# `utf8(text, size)`: where a text's bytes lie, and at address `size` how many; 0, and an error is set, for
# half of a surrogate pair.
utf8 = _function("PyUnicode_AsUTF8AndSize", 2)
# `whole(number, overflow)`: a whole number; at address `overflow`, of 32 bits, whether it has more.
whole = _function("PyLong_AsLongLongAndOverflow", 2)
# `next_item(mapping, position, key, value)`: whether there is another item; all but the first are addresses.
next_item = _function("PyDict_Next", 4)


def _decimals(context: Any, number: Any) -> Any:  # noqa: ANN401 (numba's)
    """`decimals(number)`: where the text of a float lies (its `repr`), which `free` takes back."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:  # noqa: ANN401
        kind = ir.FunctionType(_DOUBLE, [_WORD])
        read = cgutils.get_or_insert_function(builder.module, kind, "PyFloat_AsDouble")  # type: ignore[no-untyped-call]
        kind = ir.FunctionType(_WORD, [_DOUBLE, ir.IntType(8), _INT, _INT, _WORD])
        write = cgutils.get_or_insert_function(builder.module, kind, "PyOS_double_to_string")  # type: ignore[no-untyped-call]
        value = builder.call(read, given)
        shape = ir.Constant(ir.IntType(8), ord("r")), ir.Constant(_INT, 0), ir.Constant(_INT, _POINT)
        return builder.call(write, [value, *shape, ir.Constant(_WORD, 0)])

    return types.int64(types.int64), generate


def _done(name: str, takes: int) -> Any:  # noqa: ANN401 (numba's)
    """A function that returns nothing."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:  # noqa: ANN401
        kind = ir.FunctionType(ir.VoidType(), [_WORD] * takes)
        builder.call(cgutils.get_or_insert_function(builder.module, kind, name), given)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    def nothing(context: Any) -> Any:  # noqa: ANN401
        return types.void(), generate

    def one(context: Any, a: Any) -> Any:  # noqa: ANN401
        return types.void(types.int64), generate

    return intrinsic(one if takes else nothing)


# That a float's text always has a point: `Py_DTSF_ADD_DOT_0`.
_POINT = 2
decimals: Any = intrinsic(_decimals)
free, forget_error = _done("PyMem_Free", 1), _done("PyErr_Clear", 0)

# How many bytes behind an object's beginning its type is named.
TYPE_AT = 8


def can_be_walked() -> bool:
    """Whether objects are laid out as compiled functions expect, and are compiled."""
    if numba.config.DISABLE_JIT or sys.implementation.name != "cpython":  # type: ignore[attr-defined]
        return False
    return all(
        ctypes.c_int64.from_address(id(some) + TYPE_AT).value == id(type(some)) for some in ((), "a", 1)
    )
