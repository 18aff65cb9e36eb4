"""Objects of CPython's that machine code works on: values of 24 bytes, and functions with an address.

All that is not a call as machine code takes it is left to a function of Python's.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from abw.core.jit.pointers import Table
from abw.core.program.recording.machine_code import machine_code
from abw.core.program.recording.values import Value

# The bytes of an object before its fields: references and type.
HEAD = 16


@cache
def available() -> bool:
    """Whether this interpreter's objects are as the machine code takes them.

    Not on other interpreters than CPython, nor on its builds without a global lock, or that trace references.
    """
    if not (
        sys.implementation.name == "cpython"
        and object.__basicsize__ == HEAD
        and sys.byteorder == "little"
        and platform.machine() in ("x86_64", "AMD64", "aarch64", "arm64")
    ):
        return False
    probe = value_type()
    return probe.__basicsize__ == HEAD + 8 and not probe.__flags__ & _COLLECTED


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("given", ctypes.c_void_p))


class _Member(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Spec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


class _Method(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_DEALLOC, _TRAVERSE, _MEMBERS, _LONGLONG = 52, 71, 72, 17
_SUBCLASSED, _COLLECTED, FAST, BY_NAME = 1 << 10, 1 << 14, 0x80, 0x02


_MEMBER = (_Member * 2)(_Member(b"ref", _LONGLONG, HEAD, 0, None), _Member())


def _type(name: bytes, base: type, flags: int, functions: Mapping[int, str]) -> type:
    """A type whose objects have a number `ref` of 64 bits behind their head."""
    slots = [_Slot(slot, machine_code().address(function)) for slot, function in functions.items()]
    slots += [_Slot(_MEMBERS, ctypes.addressof(_MEMBER)), _Slot()]
    spec = _Spec(name, HEAD + 8, 0, flags, (_Slot * len(slots))(*slots))
    make = ctypes.pythonapi.PyType_FromSpecWithBases
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object)
    made: type = make(ctypes.addressof(spec), (base,))
    return made


@cache
def _holders() -> type:
    """What a function's `self` is: `ref` is the address of its cell, `kept` holds what that needs."""
    base = _type(b"abw.core.program.recording.machine.Address", object, _SUBCLASSED, {})
    return type("Cell", (base,), {"__slots__": ("kept",)})


def value_type() -> type[Value]:
    """A class of values that the garbage collector leaves alone: they refer to their class, no more.

    Having `traverse` of its own it does not inherit being collected from `Value`.
    """
    functions = {_DEALLOC: "dealloc", _TRAVERSE: "traverse"}
    return _type(b"abw.core.program.recording.values.Value", Value, 0, functions)


def machine_function(
    name: str, code: str, flags: int, said: str, words: Sequence[int | Table], kept: object = None
) -> Callable[..., Any]:
    """A function of the machine code `code`, which finds `words` by its `self`; of a table, where it lies.

    `said`: its signature, as `inspect.signature` reads it; `kept`: what has to be there as long as it is,
    besides tables.
    """
    cell = Table((ctypes.c_int64 * len(words))(), kept)
    for place, word in enumerate(words):
        if isinstance(word, Table):
            cell.point(place, word)
        else:
            cell.words[place] = word
    method = _Method(name.encode(), machine_code().address(code), flags, f"{said}\n--\n\n".encode())
    holder = _holders()()
    holder.ref, holder.kept = cell.at, (cell, method)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    made: Callable[..., Any] = make(ctypes.addressof(method), holder, None)
    return made


def is_machine_function(function: object) -> bool:
    """Whether a function is one of those."""
    return isinstance(getattr(function, "__self__", None), _holders())
