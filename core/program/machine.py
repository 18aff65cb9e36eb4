"""The recorder in machine code: calls of cells write to the tape without Python between, on CPython.

Made by llvmlite, of what CPython's stable ABI has: functions of its C API, called by their addresses; where
an object's type is found; a field of 64 bits behind an object's head, in types of our own. All that is not a
call with values of the right classes is left to the function that `recorder.callable_cell` writes.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Mapping
from functools import cache

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cpu.llvm.compiled import Code, compile_ir
from abw.core.exec.cpu.target import get_target
from abw.core.program.recorder import Call, Callee, Piece, Recorder, Refuse, Write, callable_cell
from abw.core.program.values import Owner, Value, class_fields

SWITCH = "ABW_RECORDER"
"""The environment's variable that is `python` where calls are to be recorded by Python."""
LEAST = 1 << 12
"""So many words there is room for at first."""
HEAD = 16
"""The bytes of an object before its fields: references and type."""

_API = (
    "PyType_GenericAlloc", "PyObject_Free", "Py_DecRef", "PyTuple_New", "PyTuple_SetItem",
    "PyObject_Vectorcall",
)  # fmt: skip
_WORDS = ("words", "at", "limit", "next", "step", "open")
_AT, _LIMIT, _NEXT, _STEP, _OPEN = range(1, 6)

# A cell: the state, its type's number, how many inputs and outputs it has, the function for all other calls;
# the classes of its inputs; of each output its class and kind.
_TEXT = r"""
@api = internal global [6 x ptr] zeroinitializer

define void @begin(ptr %functions) {
  %all = load [6 x ptr], ptr %functions
  store [6 x ptr] %all, ptr @api
  ret void
}

define internal ptr @make(ptr %class, i64 %handle) {
entry:
  %f = load ptr, ptr @api
  %value = call ptr %f(ptr %class, i64 0)
  %failed = icmp eq ptr %value, null
  br i1 %failed, label %end, label %fill
fill:
  %place = getelementptr i8, ptr %value, i64 16
  store i64 %handle, ptr %place
  br label %end
end:
  ret ptr %value
}

define void @dealloc(ptr %value) {
  %at = getelementptr i8, ptr %value, i64 8
  %class = load ptr, ptr %at
  %f1 = getelementptr ptr, ptr @api, i64 1
  %free = load ptr, ptr %f1
  call void %free(ptr %value)
  %f2 = getelementptr ptr, ptr @api, i64 2
  %release = load ptr, ptr %f2
  call void %release(ptr %class)
  ret void
}

define i32 @traverse(ptr %value, ptr %visit, ptr %with) {
  ret i32 0
}

define ptr @record(ptr %self, ptr %args, i64 %count, ptr %names) {
entry:
  %selfat = getelementptr i8, ptr %self, i64 16
  %cell = load ptr, ptr %selfat
  %state = load ptr, ptr %cell
  %inputsat = getelementptr i64, ptr %cell, i64 2
  %inputs = load i64, ptr %inputsat
  %classes = getelementptr i64, ptr %cell, i64 5
  %words = load ptr, ptr %state
  %atat = getelementptr i64, ptr %state, i64 1
  %at = load i64, ptr %atat
  %limitat = getelementptr i64, ptr %state, i64 2
  %limit = load i64, ptr %limitat
  %nextat = getelementptr i64, ptr %state, i64 3
  %openat = getelementptr i64, ptr %state, i64 5
  %open = load i64, ptr %openat
  %begin = add i64 %at, 1
  %end = add i64 %begin, %inputs
  %all = icmp eq i64 %count, %inputs
  %plain = icmp eq ptr %names, null
  %fits = icmp sle i64 %end, %limit
  %opened = icmp ne i64 %open, 0
  %ok1 = and i1 %all, %plain
  %ok2 = and i1 %fits, %opened
  %ok = and i1 %ok1, %ok2
  br i1 %ok, label %look, label %slow
look:
  %i = phi i64 [ 0, %entry ], [ %following, %take ]
  %more = icmp slt i64 %i, %inputs
  br i1 %more, label %check, label %write
check:
  %argat = getelementptr ptr, ptr %args, i64 %i
  %arg = load ptr, ptr %argat
  %typeat = getelementptr i8, ptr %arg, i64 8
  %type = load ptr, ptr %typeat
  %wantedat = getelementptr ptr, ptr %classes, i64 %i
  %wanted = load ptr, ptr %wantedat
  %right = icmp eq ptr %type, %wanted
  br i1 %right, label %take, label %slow
take:
  %handleat = getelementptr i8, ptr %arg, i64 16
  %handle = load i64, ptr %handleat
  %place = add i64 %begin, %i
  %wordat = getelementptr i64, ptr %words, i64 %place
  store i64 %handle, ptr %wordat
  %following = add i64 %i, 1
  br label %look
write:
  %numberat = getelementptr i64, ptr %cell, i64 1
  %number = load i64, ptr %numberat
  %headat = getelementptr i64, ptr %words, i64 %at
  store i64 %number, ptr %headat
  store i64 %end, ptr %atat
  %first = load i64, ptr %nextat
  %stepat = getelementptr i64, ptr %state, i64 4
  %step = load i64, ptr %stepat
  %next = add i64 %first, %step
  store i64 %next, ptr %nextat
  %outputsat = getelementptr i64, ptr %cell, i64 3
  %outputs = load i64, ptr %outputsat
  %results = getelementptr ptr, ptr %classes, i64 %inputs
  %single = icmp eq i64 %outputs, 1
  br i1 %single, label %one, label %several
one:
  %class = load ptr, ptr %results
  %kindat = getelementptr i64, ptr %results, i64 1
  %kind = load i64, ptr %kindat
  %own = add i64 %first, %kind
  %value = call ptr @make(ptr %class, i64 %own)
  ret ptr %value
several:
  %f3 = getelementptr ptr, ptr @api, i64 3
  %tuples = load ptr, ptr %f3
  %tuple = call ptr %tuples(i64 %outputs)
  %none = icmp eq ptr %tuple, null
  br i1 %none, label %failed, label %each
each:
  %o = phi i64 [ 0, %several ], [ %o1, %put ]
  %pair = mul i64 %o, 2
  %classat2 = getelementptr ptr, ptr %results, i64 %pair
  %class2 = load ptr, ptr %classat2
  %kindat2 = getelementptr i64, ptr %classat2, i64 1
  %kind2 = load i64, ptr %kindat2
  %own2 = add i64 %first, %kind2
  %value2 = call ptr @make(ptr %class2, i64 %own2)
  %none2 = icmp eq ptr %value2, null
  br i1 %none2, label %drop, label %put
put:
  %f4 = getelementptr ptr, ptr @api, i64 4
  %set = load ptr, ptr %f4
  %done = call i32 %set(ptr %tuple, i64 %o, ptr %value2)
  %o1 = add i64 %o, 1
  %further = icmp slt i64 %o1, %outputs
  br i1 %further, label %each, label %whole
whole:
  ret ptr %tuple
drop:
  %f2 = getelementptr ptr, ptr @api, i64 2
  %release = load ptr, ptr %f2
  call void %release(ptr %tuple)
  br label %failed
failed:
  ret ptr null
slow:
  %slowat = getelementptr i64, ptr %cell, i64 4
  %function = load ptr, ptr %slowat
  %f5 = getelementptr ptr, ptr @api, i64 5
  %calling = load ptr, ptr %f5
  %result = call ptr %calling(ptr %function, ptr %args, i64 %count, ptr %names)
  ret ptr %result
}
"""


def new_recorder(width: int) -> Recorder:
    """The recorder in machine code where that can be had, and is not switched off."""
    if os.environ.get(SWITCH) == "python" or not available():
        return Recorder(width)
    return MachineRecorder(width)


def is_cell(function: object) -> bool:
    """Whether a function is a cell of a net, by whatever its calls are recorded."""
    if available() and isinstance(getattr(function, "__self__", None), _cells()):
        return True
    return getattr(getattr(function, "__code__", None), "co_filename", "").startswith("<cell ")


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
    probe = _value_type()
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
_SUBCLASSED, _COLLECTED, _FAST, _BY_NAME = 1 << 10, 1 << 14, 0x80, 0x02


@cache
def _code() -> Code:
    """The machine code. Cost: some 30 ms, from a file 3."""
    code = compile_ir(_TEXT, get_target(None))
    functions = (ctypes.c_void_p * len(_API))(
        *(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in _API)
    )
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address("begin"))(ctypes.addressof(functions))
    return code


_MEMBER = (_Member * 2)(_Member(b"ref", _LONGLONG, HEAD, 0, None), _Member())


def _type(name: bytes, base: type, flags: int, functions: Mapping[int, str]) -> type:
    """A type whose objects have a number `ref` of 64 bits behind their head."""
    slots = [_Slot(slot, _code().address(function)) for slot, function in functions.items()]
    slots += [_Slot(_MEMBERS, ctypes.addressof(_MEMBER)), _Slot()]
    spec = _Spec(name, HEAD + 8, 0, flags, (_Slot * len(slots))(*slots))
    make = ctypes.pythonapi.PyType_FromSpecWithBases
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object)
    made: type = make(ctypes.addressof(spec), (base,))
    return made


@cache
def _cells() -> type:
    """What a function's `self` is: `ref` is the address of its cell, `kept` holds what that needs."""
    base = _type(b"abw.core.program.machine.Address", object, _SUBCLASSED, {})
    return type("Cell", (base,), {"__slots__": ("kept",)})


def _value_type() -> type[Value]:
    """A class of values that the garbage collector leaves alone: they refer to their class, no more.

    Having `traverse` of its own it does not inherit being collected from `Value`.
    """
    functions = {_DEALLOC: "dealloc", _TRAVERSE: "traverse"}
    return _type(b"abw.core.program.values.Value", Value, 0, functions)


class MachineRecorder(Recorder):
    """As `Recorder`; the tape is memory that machine code writes to."""

    __slots__ = ("_buffer", "_state")
    _buffer: NDArray[np.int64]

    def __init__(self, width: int) -> None:
        self._state = (ctypes.c_int64 * len(_WORDS))()
        self._grow(LEAST)
        super().__init__(width)

    def _grow(self, room: int) -> None:
        """Room for so many words; those that there are stay."""
        at = self._state[_AT]
        buffer = np.empty(room, np.int64)
        buffer[:at] = self._buffer[:at] if at else 0
        self._buffer = buffer
        self._state[0], self._state[_LIMIT] = buffer.ctypes.data, room

    @property
    def next(self) -> int:
        """As of `Recorder`."""
        return self._state[_NEXT]

    @next.setter
    def next(self, handle: int) -> None:
        self._state[_NEXT] = handle

    @property
    def step(self) -> int:
        """As of `Recorder`."""
        return self._state[_STEP]

    @step.setter
    def step(self, step: int) -> None:
        self._state[_STEP] = step

    def mark(self, instance: int) -> None:
        """As of `Recorder`."""
        self.marks.append((self._state[_NEXT], instance))

    def _append(self, words: tuple[int, ...]) -> None:
        """Write a node's words where machine code does not."""
        at = self._state[_AT]
        end = at + len(words)
        if end > self._state[_LIMIT]:
            self._grow(2 * end)
        self._buffer[at:end] = words
        self._state[_AT] = end

    def take(self) -> Piece:
        """As of `Recorder`."""
        state = self._state
        words, end = self._buffer[: state[_AT]].copy(), state[_NEXT]
        state[_AT] = 0
        marks, begin, self._begin = self.marks, self._begin, end
        self.marks = marks[-1:]
        return Piece(words, marks, (end - begin) // state[_STEP])

    def divert(self, write: Write) -> None:
        """As of `Recorder`."""
        self._state[_OPEN] = 0
        self.write = write

    def restore(self) -> None:
        """As of `Recorder`."""
        self.write = self._append
        self._state[_OPEN] = 1

    def value_class(self, net: Owner, shape: tuple[int, ...]) -> type[Value]:
        """As of `Recorder`."""
        made = _value_type()
        for name, given in class_fields(net, shape).items():
            setattr(made, name, given)
        return made

    def callable_cell(self, callee: Callee, refuse: Refuse) -> Call:
        """As of `Recorder`."""
        slow = callable_cell(callee, self, refuse)
        words = [
            ctypes.addressof(self._state),
            callee.number,
            len(callee.inputs),
            len(callee.outputs),
            id(slow),
        ]
        words += [id(kind) for _, kind in callee.inputs]
        for kind, added in zip(callee.outputs, callee.added, strict=True):
            words += [id(kind), added]
        cell = (ctypes.c_int64 * len(words))(*words)
        names = ", ".join(name for name, _ in callee.inputs)
        said = f"{callee.name}({names})\n--\n\n".encode()  # what inspect.signature reads
        name = callee.name.encode()
        method = _Method(name, _code().address("record"), _FAST | _BY_NAME, said)
        holder = _cells()()
        holder.ref, holder.kept = ctypes.addressof(cell), (self, callee, slow, cell, method)
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
        made: Call = make(ctypes.addressof(method), holder, None)
        return made
