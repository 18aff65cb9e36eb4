"""The machine code as LLVM's text, in short forms of lines that `machine_code` writes out.

- `read A B`: words of the state, as `%A` and `%B`; `write A %x`: writes one.
- `array A B`: such a word as the address `%A.to`. `api F G`: functions and objects of CPython's.
- `%x = i64 %p[3]`: the fourth field of 64 bits behind an address; `%p[3] = i64 %x` writes it.
- `%x = all %a %b %c`: whether all are true. `if %x A B`: goes to one of two blocks; `goto A`.

A value has its class in field 1 and its handle in field 2; a function finds the address of its own words in
field 2 of its `self`.
"""

from __future__ import annotations

RECORD = r"""
; How many things a list or tuple has, -1 for what is neither; and one of them.

define internal i64 @length(ptr %things) {
entry:
  %kind = ptr %things[1]
  api list tuple listSize tupleSize
  %islist = icmp eq ptr %kind, %list
  %istuple = icmp eq ptr %kind, %tuple
  %known = or i1 %islist, %istuple
  if %known given other
given:
  %sizef = select i1 %islist, ptr %listSize, ptr %tupleSize
  %size = call i64 %sizef(ptr %things)
  ret i64 %size
other:
  ret i64 -1
}

define internal ptr @item(ptr %things, i64 %i) {
  %kind = ptr %things[1]
  api list listGetItem tupleGetItem
  %islist = icmp eq ptr %kind, %list
  %getf = select i1 %islist, ptr %listGetItem, ptr %tupleGetItem
  %item = call ptr %getf(ptr %things, i64 %i)
  ret ptr %item
}

define internal ptr @make(ptr %class, i64 %handle) {
entry:
  api typeGenericAlloc
  %value = call ptr %typeGenericAlloc(ptr %class, i64 0)
  %failed = icmp eq ptr %value, null
  if %failed end fill
fill:
  %value[2] = i64 %handle
  goto end
end:
  ret ptr %value
}

define void @dealloc(ptr %value) {
  %class = ptr %value[1]
  api objectFree DecRef
  call void %objectFree(ptr %value)
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
  %state = ptr %cell[0]
  %inputs = i64 %cell[2]
  %classes = getelementptr i64, ptr %cell, i64 5
  %words = ptr %state[0]
  read at limit open
  %begin = add i64 %at, 1
  %end = add i64 %begin, %inputs
  %every = icmp eq i64 %count, %inputs
  %plain = icmp eq ptr %names, null
  %fits = icmp sle i64 %end, %limit
  %opened = icmp ne i64 %open, 0
  %ok = all %every %plain %fits %opened
  if %ok look slow
look:
  %i = phi i64 [ 0, %entry ], [ %following, %take ]
  %more = icmp slt i64 %i, %inputs
  if %more check write
check:
  %arg = ptr %args[%i]
  %type = ptr %arg[1]
  %wanted = ptr %classes[%i]
  %right = icmp eq ptr %type, %wanted
  if %right take slow
take:
  %handle = i64 %arg[2]
  %place = add i64 %begin, %i
  %words[%place] = i64 %handle
  %following = add i64 %i, 1
  goto look
write:
  %number = i64 %cell[1]
  read owner next step
  %first = or i64 %number, %owner
  %words[%at] = i64 %first
  write at %end
  %next1 = add i64 %next, %step
  write next %next1
  %outputs = i64 %cell[3]
  %results = getelementptr ptr, ptr %classes, i64 %inputs
  %single = icmp eq i64 %outputs, 1
  if %single one several
one:
  %class = ptr %results[0]
  %kind = i64 %results[1]
  %own = add i64 %next, %kind
  %value = call ptr @make(ptr %class, i64 %own)
  ret ptr %value
several:
  api tupleNew tupleSetItem DecRef
  %tuple = call ptr %tupleNew(i64 %outputs)
  %none = icmp eq ptr %tuple, null
  if %none failed each
each:
  %o = phi i64 [ 0, %several ], [ %o1, %put ]
  %pair = mul i64 %o, 2
  %result = getelementptr ptr, ptr %results, i64 %pair
  %class2 = ptr %result[0]
  %kind2 = i64 %result[1]
  %own2 = add i64 %next, %kind2
  %value2 = call ptr @make(ptr %class2, i64 %own2)
  %none2 = icmp eq ptr %value2, null
  if %none2 drop put
put:
  %done = call i32 %tupleSetItem(ptr %tuple, i64 %o, ptr %value2)
  %o1 = add i64 %o, 1
  %further = icmp slt i64 %o1, %outputs
  if %further each whole
whole:
  ret ptr %tuple
drop:
  call void %DecRef(ptr %tuple)
  goto failed
failed:
  ret ptr null
slow:
  %other = ptr %cell[4]
  api objectVectorcall
  %found = call ptr %objectVectorcall(ptr %other, ptr %args, i64 %count, ptr %names)
  ret ptr %found
}
"""

REDUCE = r"""
; A reduction: the state, its type's number, the class of the values that it reduces, the function for all
; other calls, the class and kind of its output. It is called with a list or tuple of values.

define ptr @reduce(ptr %self, ptr %args, i64 %count) {
entry:
  %cell = ptr %self[2]
  %state = ptr %cell[0]
  %wanted = ptr %cell[2]
  %words = ptr %state[0]
  %values = ptr %args[0]
  %single = icmp eq i64 %count, 1
  if %single length slow
length:
  read at limit open
  %size = call i64 @length(ptr %values)
  %begin = add i64 %at, 2
  %end = add i64 %begin, %size
  %fits = icmp sle i64 %end, %limit
  %several = icmp sgt i64 %size, 1
  %opened = icmp ne i64 %open, 0
  %ok = all %fits %several %opened
  if %ok look slow
look:
  %i = phi i64 [ 0, %length ], [ %following, %take ]
  %more = icmp slt i64 %i, %size
  if %more check write
check:
  %arg = call ptr @item(ptr %values, i64 %i)
  %type = ptr %arg[1]
  %right = icmp eq ptr %type, %wanted
  if %right take slow
take:
  %handle = i64 %arg[2]
  %place = add i64 %begin, %i
  %words[%place] = i64 %handle
  %following = add i64 %i, 1
  goto look
write:
  %number = i64 %cell[1]
  read owner next step
  %first = or i64 %number, %owner
  %words[%at] = i64 %first
  %behind = add i64 %at, 1
  %words[%behind] = i64 %size
  write at %end
  %next1 = add i64 %next, %step
  write next %next1
  %class = ptr %cell[4]
  %kind = i64 %cell[5]
  %own = add i64 %next, %kind
  %value = call ptr @make(ptr %class, i64 %own)
  ret ptr %value
slow:
  %other = ptr %cell[3]
  api objectVectorcall
  %found = call ptr %objectVectorcall(ptr %other, ptr %args, i64 %count, ptr null)
  ret ptr %found
}
"""
