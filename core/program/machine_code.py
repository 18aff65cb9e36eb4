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

FUNCTIONS = (
    "PyType_GenericAlloc", "PyObject_Free", "Py_DecRef", "Py_IncRef", "PyTuple_New", "PyTuple_SetItem",
    "PyObject_Vectorcall", "PyList_Size", "PyTuple_Size", "PyList_GetItem", "PyTuple_GetItem",
    "PyFloat_AsDouble",
)  # fmt: skip
OBJECTS = {"true": True, "false": False, "none": None, "list": list, "tuple": tuple, "float": float}
_API = (*(name.split("_")[0][2:].lower() + name.split("_")[1] for name in FUNCTIONS), *OBJECTS)
_OWN = (
    "limit", "step", "open", "whose", "asking", "room", "mask_room", "switch", "argmax", "above",
)  # fmt: skip
WORDS = {name: number for number, name in enumerate((*HEAD, *_OWN))}
"""The words of the state, by their places: the head that an executor's tape reads; room for so many words
(`limit`), the `step` from handle to handle, whether the tape is `open`, `whose` the calls are; how questions
are `asking` (see `recorder.CLOSED`), the `room` for them, and for the bytes of masks (`mask_room`); what
greenlets call to wait (`switch`), and what they and generators give who runs them (`argmax`, `above`)."""

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

; What asks: the state, the class of the values that can be asked, how many numbers these have (0: whether it
; is above), the function for all other calls. It is called with a value and what that is asked by.

define ptr @ask(ptr %self, ptr %args, i64 %count) {
entry:
  %room_for_one = alloca ptr
  %how = ptr %self[2]
  %state = load ptr, ptr %how
  %class = ptr %how[1]
  %size = i64 %how[2]
  %value = load ptr, ptr %args
  %given = ptr %args[1]
  %type = ptr %value[1]
  %kind = ptr %given[1]
  read asking
  read asked
  read room
  read asks
  read masked
  api objectVectorcall
  %right = icmp eq ptr %type, %class
  %way = sub i64 %asking, 1
  %can = icmp ult i64 %way, 2
  %fits = icmp slt i64 %asked, %room
  %ok1 = and i1 %right, %can
  %ok = and i1 %ok1, %fits
  br i1 %ok, label %which, label %slow
which:
  %isabove = icmp eq i64 %size, 0
  br i1 %isabove, label %limit, label %allowed
limit:
  api float
  %isfloat = icmp eq ptr %kind, %float
  br i1 %isfloat, label %number, label %slow
number:
  api floatAsDouble
  %double = call double %floatAsDouble(ptr %given)
  %bits = bitcast double %double to i64
  read aboves
  %aboves1 = add i64 %aboves, 1
  store i64 %aboves1, ptr %aboves.at
  br label %write
allowed:
  api none
  %isnone = icmp eq ptr %given, %none
  br i1 %isnone, label %write, label %sequence
sequence:
  api list
  api tuple
  %islist = icmp eq ptr %kind, %list
  %istuple = icmp eq ptr %kind, %tuple
  %known = or i1 %islist, %istuple
  read mask_room
  %end = add i64 %masked, %size
  %there = icmp sle i64 %end, %mask_room
  %good = and i1 %known, %there
  br i1 %good, label %length, label %slow
length:
  api listSize
  api tupleSize
  %sizef = select i1 %islist, ptr %listSize, ptr %tupleSize
  %has = call i64 %sizef(ptr %given)
  %equal = icmp eq i64 %has, %size
  br i1 %equal, label %items, label %slow
items:
  api listGetItem
  api tupleGetItem
  %getf = select i1 %islist, ptr %listGetItem, ptr %tupleGetItem
  api true
  api false
  read masks
  %masks.to = inttoptr i64 %masks to ptr
  br label %item
item:
  %i = phi i64 [ 0, %items ], [ %i1, %mark ]
  %any = phi i1 [ 0, %items ], [ %any1, %mark ]
  %one = call ptr %getf(ptr %given, i64 %i)
  %istrue = icmp eq ptr %one, %true
  %isfalse = icmp eq ptr %one, %false
  %isbool = or i1 %istrue, %isfalse
  br i1 %isbool, label %mark, label %slow
mark:
  %any1 = or i1 %any, %istrue
  %byte = zext i1 %istrue to i8
  %place = add i64 %masked, %i
  %byteat = getelementptr i8, ptr %masks.to, i64 %place
  store i8 %byte, ptr %byteat
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %size
  br i1 %more, label %item, label %some
some:
  br i1 %any1, label %keep, label %slow
keep:
  store i64 %end, ptr %masked.at
  br label %write
write:
  %said = phi i64 [ %bits, %number ], [ -1, %allowed ], [ %masked, %keep ]
  %handle = i64 %value[2]
  %asks.to = inttoptr i64 %asks to ptr
  %entry.first = mul i64 %asked, 3
  %entry.at = getelementptr i64, ptr %asks.to, i64 %entry.first
  %number.of = zext i1 %isabove to i64
  store i64 %number.of, ptr %entry.at
  %entry.at[1] = i64 %handle
  %entry.at[2] = i64 %said
  %asked1 = add i64 %asked, 1
  store i64 %asked1, ptr %asked.at
  read least
  %smaller = icmp slt i64 %handle, %least
  %least1 = select i1 %smaller, i64 %handle, i64 %least
  store i64 %least1, ptr %least.at
  read most
  %larger = icmp sgt i64 %handle, %most
  %most1 = select i1 %larger, i64 %handle, i64 %most
  store i64 %most1, ptr %most.at
  read argmax
  read above
  %told = select i1 %isabove, i64 %above, i64 %argmax
  %told.to = inttoptr i64 %told to ptr
  %waits = icmp eq i64 %asking, 1
  br i1 %waits, label %wait, label %yield
wait:
  read whose
  read switch
  %switch.to = inttoptr i64 %switch to ptr
  store ptr %told.to, ptr %room_for_one
  %found = call ptr %objectVectorcall(ptr %switch.to, ptr %room_for_one, i64 1, ptr null)
  store i64 %whose, ptr %whose.at
  ret ptr %found
yield:
  store i64 3, ptr %asking.at
  api IncRef
  call void %IncRef(ptr %told.to)
  ret ptr %told.to
slow:
  %other = ptr %how[3]
  %result = call ptr %objectVectorcall(ptr %other, ptr %args, i64 %count, ptr null)
  ret ptr %result
}
"""

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
"""Short forms of lines, and what they are written out to, one after the other: a word of the state is read,
what CPython has, a field of 64 bits (%NAME, which lies at %NAME.at); such a field is written."""


def _expanded(text: str) -> str:
    """The text with its short forms written out."""
    for form, written in _SHORT:
        text = re.sub(f"^  {form}$", written, text, flags=re.MULTILINE)
    return text.replace("COUNT", str(len(_API)))


@cache
def machine_code() -> Code:
    """The machine code. Cost: some 30 ms, from a file 3."""
    code = compile_ir(_expanded(_TEXT), get_target(None))
    functions = [ctypes.cast(getattr(ctypes.pythonapi, n), ctypes.c_void_p).value for n in FUNCTIONS]
    given = (ctypes.c_void_p * len(_API))(*functions, *map(id, OBJECTS.values()))
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address("begin"))(ctypes.addressof(given))
    return code
