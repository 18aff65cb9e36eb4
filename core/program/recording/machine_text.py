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
  api objectMalloc objectInit
  %value = call ptr %objectMalloc(i64 VALUE)
  %failed = icmp eq ptr %value, null
  if %failed lacking fill
lacking:
  api errNoMemory
  %none = call ptr %errNoMemory()
  goto end
fill:
  %begun = call ptr %objectInit(ptr %value, ptr %class)
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

; An object that calls its target, which may be replaced meanwhile.

define ptr @called(ptr %object, ptr %args, i64 %count, ptr %names) {
  %target = ptr %object[4]
  api objectVectorcall IncRef DecRef
  call void %IncRef(ptr %target)
  %found = call ptr %objectVectorcall(ptr %target, ptr %args, i64 %count, ptr %names)
  call void %DecRef(ptr %target)
  ret ptr %found
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
  read at limit
  %every = icmp eq i64 %count, %inputs
  %plain = icmp eq ptr %names, null
  %begin = add i64 %at, 1
  %end = add i64 %begin, %inputs
  %fits = icmp sle i64 %end, %limit
  %handles = getelementptr i64, ptr %words, i64 %begin
  %ok = all %every %plain %fits
  if %ok look slow
look:
  %i = phi i64 [ 0, %entry ], [ %following, %take ]
  %more = icmp slt i64 %i, %inputs
  if %more check write
check:
  %arg = ptr %args[%i]
  %type = ptr %arg[1]
  %of = ptr %classes[%i]
  %right = icmp eq ptr %type, %of
  if %right take slow
take:
  %handle = i64 %arg[2]
  %handles[%i] = i64 %handle
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
  %outs = i64 %cell[3]
  %results = getelementptr ptr, ptr %classes, i64 %inputs
  %single = icmp eq i64 %outs, 1
  if %single one outputs
one:
  %class = ptr %results[0]
  %kind = i64 %results[1]
  %own = add i64 %next, %kind
  %value = call ptr @make(ptr %class, i64 %own)
  ret ptr %value
outputs:
  api tupleNew tupleSetItem DecRef
  %tuple = call ptr %tupleNew(i64 %outs)
  %none = icmp eq ptr %tuple, null
  if %none failed each
each:
  %o = phi i64 [ 0, %outputs ], [ %o1, %put ]
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
  %further = icmp slt i64 %o1, %outs
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

; Write the handles of a list or tuple of values; whether all are of a class.

define internal i1 @take(ptr %things, i64 %count, ptr %class, ptr %to) {
entry:
  goto next
next:
  %i = phi i64 [ 0, %entry ], [ %i1, %keep ]
  %value = call ptr @item(ptr %things, i64 %i)
  %type = ptr %value[1]
  %right = icmp eq ptr %type, %class
  if %right keep end
keep:
  %handle = i64 %value[2]
  %to[%i] = i64 %handle
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %count
  if %more next end
end:
  ret i1 %right
}

; Attention: the state, its type's number, the classes of values, keys and queries, the class and kind of
; results, the function for all other calls. It is called with three lists or tuples and gives a list.

define ptr @attend(ptr %self, ptr %args, i64 %count) {
entry:
  %cell = ptr %self[2]
  %state = ptr %cell[0]
  %number = i64 %cell[1]
  %classes = getelementptr i64, ptr %cell, i64 2
  %words = ptr %state[0]
  read at limit owner next step
  %three = icmp eq i64 %count, 3
  if %three sizes slow
sizes:
  %values = ptr %args[0]
  %keys = ptr %args[1]
  %queries = ptr %args[2]
  %n = call i64 @length(ptr %values)
  %n1 = call i64 @length(ptr %keys)
  %m = call i64 @length(ptr %queries)
  %several = icmp sgt i64 %n, 1
  %alike = icmp eq i64 %n, %n1
  %some = icmp sgt i64 %m, 0
  %begin = add i64 %at, 2
  %twice = shl i64 %n, 1
  %reads = add i64 %twice, %m
  %end = add i64 %begin, %reads
  %fits = icmp sle i64 %end, %limit
  %fine = all %several %alike %some %fits
  if %fine lists slow
lists:
  %of0 = ptr %classes[0]
  %of1 = ptr %classes[1]
  %of2 = ptr %classes[2]
  %to0 = getelementptr i64, ptr %words, i64 %begin
  %to1 = getelementptr i64, ptr %to0, i64 %n
  %to2 = getelementptr i64, ptr %to1, i64 %n
  %right0 = call i1 @take(ptr %values, i64 %n, ptr %of0, ptr %to0)
  %right1 = call i1 @take(ptr %keys, i64 %n, ptr %of1, ptr %to1)
  %right2 = call i1 @take(ptr %queries, i64 %m, ptr %of2, ptr %to2)
  %right = all %right0 %right1 %right2
  if %right write slow
write:
  %first = or i64 %number, %owner
  %words[%at] = i64 %first
  %others = sub i64 %m, 1
  %high = shl i64 %others, 32
  %head = or i64 %high, %n
  %behind = add i64 %at, 1
  %words[%behind] = i64 %head
  write at %end
  %length = mul i64 %m, %step
  %next1 = add i64 %next, %length
  write next %next1
  api listNew listSetItem DecRef
  %list = call ptr %listNew(i64 %m)
  %none = icmp eq ptr %list, null
  if %none done each
each:
  %i = phi i64 [ 0, %write ], [ %i1, %put ]
  %class = ptr %classes[3]
  %kind = i64 %classes[4]
  %offset = mul i64 %i, %step
  %base = add i64 %next, %offset
  %handle = add i64 %base, %kind
  %value = call ptr @make(ptr %class, i64 %handle)
  %lacks = icmp eq ptr %value, null
  if %lacks lacking put
put:
  %set = call i32 %listSetItem(ptr %list, i64 %i, ptr %value)
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %m
  if %more each done
lacking:
  call void %DecRef(ptr %list)
  ret ptr null
done:
  ret ptr %list
slow:
  %other = ptr %cell[7]
  api objectVectorcall
  %found = call ptr %objectVectorcall(ptr %other, ptr %args, i64 %count, ptr null)
  ret ptr %found
}
"""
