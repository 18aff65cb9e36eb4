"""The machine code that asks for values: notes what a program waits for; see `machine_text`."""

from __future__ import annotations

ASK = r"""
; A question is noted: `way` says which, of what value, and by what (see `HEAD`). It waits by a greenlet's
; switch, or gives a generator what that is to yield.

define internal ptr @note(ptr %state, i64 %way, i64 %handle, i64 %given, i64 %length, ptr %told) {
entry:
  read asking asked least most
  array asks
  %first = mul i64 %asked, ASK_WORDS
  %row = getelementptr i64, ptr %asks.to, i64 %first
  %row[0] = i64 %way
  %row[1] = i64 %handle
  %row[2] = i64 %given
  %row[3] = i64 %length
  %asked1 = add i64 %asked, 1
  write asked %asked1
  %smaller = icmp slt i64 %handle, %least
  %least1 = select i1 %smaller, i64 %handle, i64 %least
  write least %least1
  %larger = icmp sgt i64 %handle, %most
  %most1 = select i1 %larger, i64 %handle, i64 %most
  write most %most1
  %waits = icmp eq i64 %asking, 1
  if %waits wait yield
wait:
  %found = call ptr @wait(ptr %state, ptr %told)
  ret ptr %found
yield:
  write asking 3
  api IncRef
  call void %IncRef(ptr %told)
  ret ptr %told
}

; Whether one more question can be noted now.

define internal i1 @can(ptr %state) {
  read asking asked room
  %way = sub i64 %asking, 1
  %open = icmp ult i64 %way, 2
  %fits = icmp slt i64 %asked, %room
  %can = and i1 %open, %fits
  ret i1 %can
}

; What asks: the state, the class of the values that can be asked, how many numbers these have (0: whether it
; is above), the function for all other calls. It is called with a value and what that is asked by.

define ptr @ask(ptr %self, ptr %args, i64 %count) {
entry:
  %how = ptr %self[2]
  %state = ptr %how[0]
  %class = ptr %how[1]
  %size = i64 %how[2]
  %value = ptr %args[0]
  %given = ptr %args[1]
  %type = ptr %value[1]
  %kind = ptr %given[1]
  read masked
  %right = icmp eq ptr %type, %class
  %can = call i1 @can(ptr %state)
  %ok = and i1 %right, %can
  if %ok which slow
which:
  %isabove = icmp eq i64 %size, 0
  if %isabove limit allowed
limit:
  api float floatAsDouble
  %isfloat = icmp eq ptr %kind, %float
  if %isfloat number slow
number:
  %double = call double %floatAsDouble(ptr %given)
  %bits = bitcast double %double to i64
  goto write
allowed:
  api none
  %isnone = icmp eq ptr %given, %none
  if %isnone write sequence
sequence:
  read mask_room
  %end = add i64 %masked, %size
  %there = icmp sle i64 %end, %mask_room
  %has = call i64 @length(ptr %given)
  %equal = icmp eq i64 %has, %size
  %good = and i1 %there, %equal
  if %good items slow
items:
  api true false
  array masks
  %mask = getelementptr i8, ptr %masks.to, i64 %masked
  goto item
item:
  %i = phi i64 [ 0, %items ], [ %i1, %mark ]
  %any = phi i1 [ 0, %items ], [ %any1, %mark ]
  %one = call ptr @item(ptr %given, i64 %i)
  %istrue = icmp eq ptr %one, %true
  %isfalse = icmp eq ptr %one, %false
  %isbool = or i1 %istrue, %isfalse
  if %isbool mark slow
mark:
  %any1 = or i1 %any, %istrue
  %byte = zext i1 %istrue to i8
  %byteat = getelementptr i8, ptr %mask, i64 %i
  store i8 %byte, ptr %byteat
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %size
  if %more item some
some:
  if %any1 keep slow
keep:
  write masked %end
  goto write
write:
  %said = phi i64 [ %bits, %number ], [ -1, %allowed ], [ %masked, %keep ]
  %handle = i64 %value[2]
  array argmax above
  %told = select i1 %isabove, ptr %above.to, ptr %argmax.to
  %way = zext i1 %isabove to i64
  %found = call ptr @note(ptr %state, i64 %way, i64 %handle, i64 %said, i64 %size, ptr %told)
  ret ptr %found
slow:
  %other = ptr %how[3]
  api objectVectorcall
  %result = call ptr %objectVectorcall(ptr %other, ptr %args, i64 %count, ptr null)
  ret ptr %result
}

; What asks for the best of several values: the state, the class of these, the function for all other calls.
; It is called with a list of values, how many elements are wanted, a list of what the scores begin with.

define ptr @pick(ptr %self, ptr %args, i64 %count) {
entry:
  %over = alloca i32
  %how = ptr %self[2]
  %state = ptr %how[0]
  %ours = ptr %how[1]
  %values = ptr %args[0]
  %wanted = ptr %args[1]
  %given = ptr %args[2]
  %kind = ptr %wanted[1]
  read ranked picked rank_room
  api int objectVectorcall
  %isint = icmp eq ptr %kind, %int
  %can = call i1 @can(ptr %state)
  %ok = and i1 %isint, %can
  if %ok look slow
look:
  api longAsLongLongAndOverflow
  %size = call i64 @length(ptr %values)
  %begins = call i64 @length(ptr %given)
  %many = call i64 %longAsLongLongAndOverflow(ptr %wanted, ptr %over)
  %many0 = sub i64 %many, 1
  %known = icmp ult i64 %many0, MOST
  %some = icmp sgt i64 %size, 0
  %equal = icmp eq i64 %size, %begins
  %end = add i64 %ranked, %size
  %fits = icmp sle i64 %end, %rank_room
  %behind = add i64 %picked, %many
  %there = icmp sle i64 %behind, %rank_room
  %good = all %known %some %equal %fits %there
  if %good each slow
each:
  %i = phi i64 [ 0, %look ], [ %i1, %take ]
  %last = phi i64 [ -9223372036854775808, %look ], [ %last1, %take ]
  api float floatAsDouble
  %one = call ptr @item(ptr %values, i64 %i)
  %number = call ptr @item(ptr %given, i64 %i)
  %type1 = ptr %one[1]
  %type2 = ptr %number[1]
  %right = icmp eq ptr %type1, %ours
  %isfloat = icmp eq ptr %type2, %float
  %both = and i1 %right, %isfloat
  if %both finite slow
finite:
  %double = call double %floatAsDouble(ptr %number)
  %less = fcmp olt double %double, 0x7FF0000000000000
  if %less take slow
take:
  %handle = i64 %one[2]
  %bits = bitcast double %double to i64
  array handles plus
  %place = add i64 %ranked, %i
  %handles.to[%place] = i64 %handle
  %plus.to[%place] = i64 %bits
  %later = icmp sgt i64 %handle, %last
  %last1 = select i1 %later, i64 %handle, i64 %last
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %size
  if %more each write
write:
  read asked
  array asks best
  %first = mul i64 %asked, ASK_WORDS
  %row = getelementptr i64, ptr %asks.to, i64 %first
  %row[4] = i64 %many
  %row[5] = i64 %picked
  write ranked %end
  write picked %behind
  %found = call ptr @note(ptr %state, i64 2, i64 %last1, i64 %ranked, i64 %size, ptr %best.to)
  ret ptr %found
slow:
  %other = ptr %how[2]
  %result = call ptr %objectVectorcall(ptr %other, ptr %args, i64 %count, ptr null)
  ret ptr %result
}
"""
