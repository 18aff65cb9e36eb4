"""Machine code for CPython: records calls of cells, asks questions, makes and frees values.

All that abw knows of CPython's objects stands here and in `machine_text`, `machine_region`, `machine_ask` and
`machine_resume`. llvmlite compiles the text. It relies on the stable ABI alone: functions of the C API,
called by their addresses; where an object's type is found; fields of 64 bits behind an object's head, in
types of our own. All that is not a call as machine code takes it is left to a function of Python's.
"""

from __future__ import annotations

import ctypes
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from abw.core.exec.cpu.llvm.compiled import Code, compile_ir
from abw.core.exec.cpu.target import get_target
from abw.core.exec.interface import ASK_WORDS, FALSE, HEAD, MOST_BEST, TRUE
from abw.core.graph.growing.state import DONE
from abw.core.jit.pointers import Table
from abw.core.program.recording.machine_ask import ASK
from abw.core.program.recording.machine_region import INSTRUCTIONS, REGION
from abw.core.program.recording.machine_resume import RESUME
from abw.core.program.recording.machine_text import RECORD
from abw.core.program.recording.values import BITS, Value

FUNCTIONS = (
    "PyType_GenericAlloc", "PyObject_Free", "Py_DecRef", "Py_IncRef", "PyTuple_New", "PyTuple_SetItem",
    "PyObject_Vectorcall", "PyList_Size", "PyTuple_Size", "PyList_GetItem", "PyTuple_GetItem",
    "PyFloat_AsDouble", "PyLong_AsLongLongAndOverflow", "PyLong_AsLongLong", "PyLong_FromLongLong",
    "PyList_SetItem", "PyIter_Send", "PyEval_SaveThread", "PyEval_RestoreThread",
    "PyList_New", "Py_BuildValue", "PySequence_List", "PyObject_Malloc", "PyObject_Init", "PyErr_NoMemory",
)  # fmt: skip
OBJECTS: dict[str, object] = {"true": True, "false": False, "none": None}
OBJECTS |= {"list": list, "tuple": tuple, "float": float, "int": int}
_API = (*(name.split("_")[0][2:].lower() + name.split("_")[1] for name in FUNCTIONS), *OBJECTS)
_OWN = (
    "limit", "step", "owner", "asking", "room", "mask_room", "switch", "argmax", "above",
    "best",
    "calls", "listed", "owners", "stops", "size", "sends", "resumed", "sent", "left",
)  # fmt: skip
# The words of the state, by their places: the head that an executor's tape reads; room for so many words
# (`limit`, 0 where the tape is closed), the `step` from handle to handle, the `owner` of calls; how questions
# are `asking` (`CLOSED`, …), the `room` for them, and for the bytes of masks (`mask_room`); what greenlets
# call to wait (`switch`), and what they and generators then give (`argmax`, `above`, `best`).
#
# To go on: the lists that `resume` is called with (`calls`, `owners`, `stops`), that of the answers, 0 where
# the head has them (`listed`); how many greenlets switch to each other (`size`), or that they are generators
# (`sends`); the index of the last one (`resumed`); how that stopped, if it is a generator (`sent`: 1 by
# yielding, 0: it ended); how many rounds may still follow on each other (`left`).
WORDS = {name: number for number, name in enumerate((*HEAD, *_OWN))}

# How questions are asked: they are not noted; a greenlet waits by switching; a generator gets what it is to
# yield; it got that, and has not yielded it yet.
CLOSED, BY_SWITCH, BY_YIELD, TO_YIELD = range(4)

# What text calls to say where CPython's functions and objects are.
_BEGIN = r"""
@api = internal global [COUNT x ptr] zeroinitializer
@form = internal constant [6 x i8] c"(iid)\00"

define void @begin(ptr %given) {
  %all = load [COUNT x ptr], ptr %given
  store [COUNT x ptr] %all, ptr @api
  ret void
}
"""


def _each(line: Callable[[str], str]) -> Callable[[re.Match[str]], str]:
    """Write a line for each of the words found."""
    return lambda found: "\n".join(map(line, found[1].split()))


def _word(name: str) -> str:
    return f"  %{name} = i64 %state[{WORDS[name]}]"


def _all(found: re.Match[str]) -> str:
    """Write `and` of several values, two at a time."""
    name, (left, *others) = found[1], found[2].split()
    lines = []
    for n, right in enumerate(others, 1):
        made = f"%{name}" if n == len(others) else f"%{name}.{n}"
        lines.append(f"  {made} = and i1 {left}, {right}")
        left = made
    return "\n".join(lines)


def _store(found: re.Match[str]) -> str:
    """Write a field of 64 bits; its address gets a name of its own."""
    base, number, value = found.groups()
    at = f"{base}.{found.start()}"
    return f"  {at} = getelementptr i64, ptr {base}, i64 {number}\n  store i64 {value}, ptr {at}"


# The short forms of lines (see `machine_text`), and what each is written out to. A field that is read lies at
# %NAME.at.
_SHORT: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"read (.+)", _each(_word)),
    (r"array (.+)", _each(lambda name: f"{_word(name)}\n  %{name}.to = inttoptr i64 %{name} to ptr")),
    (r"api (.+)", _each(lambda name: f"  %{name} = ptr @api[{_API.index(name)}]")),
    (r"%(\w+) = all (.+)", _all),
    (r"write (\w+) (\S+)", lambda found: f"  %state[{WORDS[found[1]]}] = i64 {found[2]}"),
    (r"if (\S+) (\w+) (\w+)", r"  br i1 \1, label %\2, label %\3"),
    (r"goto (\w+)", r"  br label %\1"),
    (
        r"%(\w+) = (\w+) (\S+)\[(\S+)\]",
        r"  %\1.at = getelementptr \2, ptr \3, i64 \4\n  %\1 = load \2, ptr %\1.at",
    ),
    (r"(\S+)\[(\S+)\] = i64 (\S+)", _store),
)


def _expanded(text: str) -> str:
    """The text with its short forms written out."""
    for form, written in _SHORT:
        text = re.sub(f"^  {form}$", written, text, flags=re.MULTILINE)
    numbers = {"ASK_WORDS": ASK_WORDS, "FALSE": FALSE, "TRUE": TRUE, "DONE": DONE, "MOST": MOST_BEST}
    for name, number in (numbers | {"COUNT": len(_API), "ROW_BITS": BITS, "VALUE": OBJECT + 8}).items():
        text = text.replace(name, str(number))
    cases = (f"i64 {number}, label %{name}" for number, name in enumerate(INSTRUCTIONS))
    return text.replace("CASES", " ".join(cases))


@cache
def machine_code() -> Code:
    """The machine code. Cost: some 30 ms, from a file 3."""
    code = compile_ir(_expanded(_BEGIN + RECORD + REGION + ASK + RESUME), get_target(None))
    functions = [ctypes.cast(getattr(ctypes.pythonapi, n), ctypes.c_void_p).value for n in FUNCTIONS]
    given = (ctypes.c_void_p * len(_API))(*functions, *map(id, OBJECTS.values()))
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address("begin"))(ctypes.addressof(given))
    return code


# The bytes of an object before its fields: the count of references, and the type.
OBJECT = 16


@cache
def available() -> bool:
    """Whether this interpreter's objects are laid out as the machine code expects.

    Not on builds of CPython without a global lock, or that trace references.
    """
    if object.__basicsize__ != OBJECT or platform.machine() not in ("x86_64", "AMD64", "aarch64", "arm64"):
        return False
    probe = value_type()
    return probe.__basicsize__ == OBJECT + 8 and not probe.__flags__ & _COLLECTED


def _structure(**fields: Any) -> Any:  # noqa: ANN401 (ctypes' types)
    return type("_Structure", (ctypes.Structure,), {"_fields_": tuple(fields.items())})


# As in CPython's PyType_Slot, PyMemberDef, PyType_Spec and PyMethodDef.
_Slot = _structure(slot=ctypes.c_int, content=ctypes.c_void_p)
_Member = _structure(
    name=ctypes.c_char_p, type=ctypes.c_int, offset=ctypes.c_ssize_t, flags=ctypes.c_int, doc=ctypes.c_char_p
)
_Spec = _structure(
    name=ctypes.c_char_p,
    size=ctypes.c_int,
    item=ctypes.c_int,
    flags=ctypes.c_uint,
    slots=ctypes.POINTER(_Slot),
)
_Method = _structure(name=ctypes.c_char_p, code=ctypes.c_void_p, flags=ctypes.c_int, doc=ctypes.c_char_p)
_CALL, _DEALLOC, _TRAVERSE, _MEMBERS, _LONGLONG, _OBJECT, _SIZE = 50, 52, 71, 72, 17, 16, 19
_SUBCLASSED, _CALLED, _COLLECTED, FAST, BY_NAME = 1 << 10, 1 << 11, 1 << 14, 0x80, 0x02


_REF = b"ref", _LONGLONG


def _type(
    name: bytes,
    base: type,
    flags: int,
    functions: Mapping[int, int | None],
    *fields: tuple[bytes, int],
) -> type:
    """A type whose objects have fields of 64 bits behind those of the base, by default a number `ref`."""
    begin = base.__basicsize__
    members = [_Member(n, kind, begin + 8 * i, 0, None) for i, (n, kind) in enumerate(fields or (_REF,))]
    if flags & _CALLED:  # by the function that the first field is the address of
        members.append(_Member(b"__vectorcalloffset__", _SIZE, begin, 1, None))
    listed = (_Member * (len(members) + 1))(*members)
    slots = [_Slot(slot, at) for slot, at in functions.items()]
    slots += [_Slot(_MEMBERS, ctypes.cast(listed, ctypes.c_void_p)), _Slot()]
    held = (_Slot * len(slots))(*slots)
    size = begin + 8 * max(1, len(fields))
    spec = _Spec(name, size, 0, flags, ctypes.cast(held, ctypes.POINTER(_Slot)))  # which keeps `held`
    make = ctypes.pythonapi.PyType_FromSpecWithBases
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object)
    made: type = make(ctypes.addressof(spec), (base,))
    return made


@cache
def _holders() -> type:
    """What a function's `self` is: `ref` is the address of its cell, `kept` holds what that needs."""
    base = _type(b"abw.core.program.recording.machine_code.Address", object, _SUBCLASSED, {})
    return type("Cell", (base,), {"__slots__": ("kept",)})


def value_type() -> type[Value]:
    """A class of values that the garbage collector leaves alone: they refer to their class, no more.

    Having `traverse` of its own it does not inherit being collected from `Value`.
    """
    at = machine_code().address
    functions = {_DEALLOC: at("dealloc"), _TRAVERSE: at("traverse")}
    return _type(b"abw.core.program.recording.values.Value", Value, 0, functions)


@cache
def called_type(name: str, base: type) -> type[Any]:
    """A type whose objects call their `target` when they are called. `base` has a single slot.

    `entry` of an object is to be `machine_code().address("called")`.
    """
    call = ctypes.cast(ctypes.pythonapi.PyVectorcall_Call, ctypes.c_void_p).value
    fields = (b"entry", _LONGLONG), (b"target", _OBJECT)
    return _type(f"{base.__module__}.{name}".encode(), base, _CALLED, {_CALL: call}, *fields)


def machine_function(
    name: str, code: str, flags: int, said: str, words: Sequence[int | Table], kept: object = None
) -> Callable[..., Any]:
    """Make a function of the machine code `code`, which finds `words` by its `self`; of a table, the address.

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
    """Whether a function is one that `machine_function` made."""
    return isinstance(getattr(function, "__self__", None), _holders())
