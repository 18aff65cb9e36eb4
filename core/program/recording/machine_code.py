"""Machine code for CPython: records calls of cells, asks questions, makes and frees values.

llvmlite compiles it. It relies on CPython's stable ABI alone: functions of its C API, called by their
addresses; where an object's type is found; a field of 64 bits behind an object's head, in types of our own.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from functools import cache

from abw.core.exec.cpu.llvm.compiled import Code, compile_ir
from abw.core.exec.cpu.target import get_target
from abw.core.exec.interface import HEAD, MOST_BEST
from abw.core.program.recording.machine_text import ASK, RECORD, RESUME

FUNCTIONS = (
    "PyType_GenericAlloc", "PyObject_Free", "Py_DecRef", "Py_IncRef", "PyTuple_New", "PyTuple_SetItem",
    "PyObject_Vectorcall", "PyList_Size", "PyTuple_Size", "PyList_GetItem", "PyTuple_GetItem",
    "PyFloat_AsDouble", "PyLong_AsLongLongAndOverflow", "PyLong_AsLongLong", "PyLong_FromLongLong",
    "PyList_SetItem", "PyIter_Send",
)  # fmt: skip
OBJECTS: dict[str, object] = {"true": True, "false": False, "none": None}
OBJECTS |= {"list": list, "tuple": tuple, "float": float, "int": int}
_API = (*(name.split("_")[0][2:].lower() + name.split("_")[1] for name in FUNCTIONS), *OBJECTS)
_OWN = (
    "limit", "step", "open", "owner", "asking", "room", "mask_room", "switch", "argmax", "above",
    "best", "picks", "k", "class", "ends", "ranked", "handles", "plus", "rank_room",
    "calls", "answers", "owners", "stops", "size", "sends", "resumed", "sent",
)  # fmt: skip
# The words of the state, by their places: the head that an executor's tape reads; room for so many words
# (`limit`), the `step` from handle to handle, whether the tape is `open`, the `owner` of calls; how
# questions are `asking` (`CLOSED`, …), the `room` for them, and for the bytes of masks
# (`mask_room`); what greenlets call to wait (`switch`), and what they and generators then give (`argmax`,
# `above`, `best`).
#
# Of the questions for the best of several values: how many there are (`picks`), for how many elements (`k`)
# and of what `class` all are; where each one's values end (`ends`); how many values these are (`ranked`),
# their `handles`, what their scores begin with (`plus`), and the `rank_room` for them.
#
# To go on: the lists that `resume` is called with (`calls`, `answers`, `owners`, `stops`), how many
# greenlets switch to each other (`size`), or that they are generators (`sends`); the index of the last
# one (`resumed`); how that stopped, if it is a generator (`sent`: 1 by yielding, 0: it ended).
WORDS = {name: number for number, name in enumerate((*HEAD, *_OWN))}

# How questions are asked: they are not noted; a greenlet waits by switching; a generator gets what it is to
# yield; it got that, and has not yielded it yet.
CLOSED, BY_SWITCH, BY_YIELD, TO_YIELD = range(4)

# What text calls to say where CPython's functions and objects are.
_BEGIN = """
@api = internal global [COUNT x ptr] zeroinitializer

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
    """`and` of several, two at a time."""
    name, (left, *others) = found[1], found[2].split()
    lines = []
    for n, right in enumerate(others, 1):
        made = f"%{name}" if n == len(others) else f"%{name}.{n}"
        lines.append(f"  {made} = and i1 {left}, {right}")
        left = made
    return "\n".join(lines)


def _store(found: re.Match[str]) -> str:
    """A field of 64 bits is written; its address gets a name of its own."""
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
        r"  %\1.at = getelementptr i64, ptr \3, i64 \4\n  %\1 = load \2, ptr %\1.at",
    ),
    (r"(\S+)\[(\S+)\] = i64 (\S+)", _store),
)


def _expanded(text: str) -> str:
    """The text with its short forms written out."""
    for form, written in _SHORT:
        text = re.sub(f"^  {form}$", written, text, flags=re.MULTILINE)
    return text.replace("COUNT", str(len(_API))).replace("MOST", str(MOST_BEST))


@cache
def machine_code() -> Code:
    """The machine code. Cost: some 30 ms, from a file 3."""
    code = compile_ir(_expanded(_BEGIN + RECORD + ASK + RESUME), get_target(None))
    functions = [ctypes.cast(getattr(ctypes.pythonapi, n), ctypes.c_void_p).value for n in FUNCTIONS]
    given = (ctypes.c_void_p * len(_API))(*functions, *map(id, OBJECTS.values()))
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address("begin"))(ctypes.addressof(given))
    return code
