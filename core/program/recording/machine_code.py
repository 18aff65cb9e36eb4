"""What is done in machine code on CPython: a cell's call recorded, a question asked, a value made and freed.

Made by llvmlite, of what CPython's stable ABI has: functions of its C API, called by their addresses; where
an object's type is found; a field of 64 bits behind an object's head, in types of our own.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache

from abw.core.exec.cpu.llvm.compiled import Code, compile_ir
from abw.core.exec.cpu.target import get_target
from abw.core.exec.interface import HEAD
from abw.core.program.recording.machine_asks import ASKS
from abw.core.program.recording.machine_resume import RESUME

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
    "limit", "step", "open", "whose", "asking", "room", "mask_room", "switch", "argmax", "above",
    "best", "picks", "k", "class", "ends", "ranked", "handles", "plus", "rank_room",
    "calls", "answers", "owners", "stops", "size", "sends", "resumed", "sent",
)  # fmt: skip
# The words of the state, by their places: the head that an executor's tape reads; room for so many words
# (`limit`), the `step` from handle to handle, whether the tape is `open`, `whose` the calls are; how
# questions are `asking` (see `recorder.CLOSED`), the `room` for them, and for the bytes of masks
# (`mask_room`); what greenlets call to wait (`switch`), and what they and generators then give (`argmax`,
# `above`, `best`).
#
# Of the questions for the best of several values: how many there are (`picks`), for how many elements (`k`)
# and of what `class` all are; where each one's values end (`ends`); how many values these are (`ranked`),
# their `handles`, what their scores begin with (`plus`), and the `rank_room` for them.
#
# Of those who go on: the lists that `Recorder.resume` is given (`calls`, `answers`, `owners`, `stops`), how
# many switch to each other (`size`), or that they are generators (`sends`); the place of the last one
# (`resumed`); how that stopped, if it is a generator (`sent`: 1 by yielding, 0: it ended).
WORDS = {name: number for number, name in enumerate((*HEAD, *_OWN))}

_TEXT = r"""
@api = internal global [COUNT x ptr] zeroinitializer

define void @begin(ptr %given) {
  %all = load [COUNT x ptr], ptr %given
  store [COUNT x ptr] %all, ptr @api
  ret void
}

define internal ptr @make(ptr %class, i64 %handle) {
entry:
  api typeGenericAlloc
  %value = call ptr %typeGenericAlloc(ptr %class, i64 0)
  %failed = icmp eq ptr %value, null
  br i1 %failed, label %end, label %fill
fill:
  %value[2] = i64 %handle
  br label %end
end:
  ret ptr %value
}

define void @dealloc(ptr %value) {
  %class = ptr %value[1]
  api objectFree
  call void %objectFree(ptr %value)
  api DecRef
  call void %DecRef(ptr %class)
  ret void
}

define i32 @traverse(ptr %value, ptr %visit, ptr %with) {
  ret i32 0
}

; A cell: the state, its type's number, how many inputs and outputs it has, the function for all other calls;
; the classes of its inputs; of each output its class and kind.

define ptr @record(ptr %self, ptr %args, i64 %count, ptr %names) {
entry:
  %cell = ptr %self[2]
  %state = load ptr, ptr %cell
  %inputs = i64 %cell[2]
  %classes = getelementptr i64, ptr %cell, i64 5
  %words = load ptr, ptr %state
  read at
  read limit
  read open
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
  %arg = ptr %args[%i]
  %type = ptr %arg[1]
  %wanted = ptr %classes[%i]
  %right = icmp eq ptr %type, %wanted
  br i1 %right, label %take, label %slow
take:
  %handle = i64 %arg[2]
  %place = add i64 %begin, %i
  %words[%place] = i64 %handle
  %following = add i64 %i, 1
  br label %look
write:
  %number = i64 %cell[1]
  read whose
  %first_word = or i64 %number, %whose
  %words[%at] = i64 %first_word
  store i64 %end, ptr %at.at
  read next
  read step
  %next1 = add i64 %next, %step
  store i64 %next1, ptr %next.at
  %outputs = i64 %cell[3]
  %results = getelementptr ptr, ptr %classes, i64 %inputs
  %single = icmp eq i64 %outputs, 1
  br i1 %single, label %one, label %several
one:
  %class = load ptr, ptr %results
  %kind = i64 %results[1]
  %own = add i64 %next, %kind
  %value = call ptr @make(ptr %class, i64 %own)
  ret ptr %value
several:
  api tupleNew
  %tuple = call ptr %tupleNew(i64 %outputs)
  %none = icmp eq ptr %tuple, null
  br i1 %none, label %failed, label %each
each:
  %o = phi i64 [ 0, %several ], [ %o1, %put ]
  %pair = mul i64 %o, 2
  %classat2 = getelementptr ptr, ptr %results, i64 %pair
  %class2 = load ptr, ptr %classat2
  %kind2 = i64 %classat2[1]
  %own2 = add i64 %next, %kind2
  %value2 = call ptr @make(ptr %class2, i64 %own2)
  %none2 = icmp eq ptr %value2, null
  br i1 %none2, label %drop, label %put
put:
  api tupleSetItem
  %done = call i32 %tupleSetItem(ptr %tuple, i64 %o, ptr %value2)
  %o1 = add i64 %o, 1
  %further = icmp slt i64 %o1, %outputs
  br i1 %further, label %each, label %whole
whole:
  ret ptr %tuple
drop:
  api DecRef
  call void %DecRef(ptr %tuple)
  br label %failed
failed:
  ret ptr null
slow:
  %other = ptr %cell[4]
  api objectVectorcall
  %result = call ptr %objectVectorcall(ptr %other, ptr %args, i64 %count, ptr %names)
  ret ptr %result
}
"""

# Short forms of lines, and what they are written out to, one after the other: a word of the state is read,
# what CPython has, a field of 64 bits (%NAME, which lies at %NAME.at); such a field is written.
_SHORT = (
    (r"read (\w+)", lambda found: f"  %{found[1]} = i64 %state[{WORDS[found[1]]}]"),
    (r"api (\w+)", lambda found: f"  %{found[1]} = ptr @api[{_API.index(found[1])}]"),
    (
        r"%(\w+) = (\w+) (\S+)\[(\S+)\]",
        r"  %\1.at = getelementptr i64, ptr \3, i64 \4\n  %\1 = load \2, ptr %\1.at",
    ),
    (
        r"(\S+)\[(%?)(\w+)\] = i64 (\S+)",
        r"  \1.\3 = getelementptr i64, ptr \1, i64 \2\3\n  store i64 \4, ptr \1.\3",
    ),
)


def _expanded(text: str) -> str:
    """The text with its short forms written out."""
    for form, written in _SHORT:
        text = re.sub(f"^  {form}$", written, text, flags=re.MULTILINE)
    return text.replace("COUNT", str(len(_API)))


@cache
def machine_code() -> Code:
    """The machine code. Cost: some 30 ms, from a file 3."""
    code = compile_ir(_expanded(_TEXT + ASKS + RESUME), get_target(None))
    functions = [ctypes.cast(getattr(ctypes.pythonapi, n), ctypes.c_void_p).value for n in FUNCTIONS]
    given = (ctypes.c_void_p * len(_API))(*functions, *map(id, OBJECTS.values()))
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address("begin"))(ctypes.addressof(given))
    return code
