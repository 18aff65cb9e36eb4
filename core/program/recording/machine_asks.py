"""What asks for numbers in machine code, in the short forms of `machine_code`: argmax, above, best.

Each waits by a greenlet's switch, or (but for best) gives a generator what that is to yield.
"""

from __future__ import annotations

from abw.core.exec.interface import MOST_BEST

ASKS = r"""
; A question to a value is noted.

define internal void @see(ptr %state, i64 %handle) {
entry:
  read least
  %smaller = icmp slt i64 %handle, %least
  %least1 = select i1 %smaller, i64 %handle, i64 %least
  store i64 %least1, ptr %least.at
  read most
  %larger = icmp sgt i64 %handle, %most
  %most1 = select i1 %larger, i64 %handle, i64 %most
  store i64 %most1, ptr %most.at
  ret void
}

; What asks: the state, the class of the values that can be asked, how many numbers these have (0: whether it
; is above), the function for all other calls. It is called with a value and what that is asked by.

define ptr @ask(ptr %self, ptr %args, i64 %count) {
entry:
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
  call void @see(ptr %state, i64 %handle)
  read argmax
  read above
  %told = select i1 %isabove, i64 %above, i64 %argmax
  %told.to = inttoptr i64 %told to ptr
  %waits = icmp eq i64 %asking, 1
  br i1 %waits, label %wait, label %yield
wait:
  %found = call ptr @wait(ptr %state, ptr %told.to)
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

; What asks for the best of several values: the state, the class of these, the function for all other calls.
; It is called with a list of values, how many elements are wanted, a list of what the scores begin with.

define ptr @pick(ptr %self, ptr %args, i64 %count) {
entry:
  %over = alloca i32
  %how = ptr %self[2]
  %state = load ptr, ptr %how
  %ours = ptr %how[1]
  %values = load ptr, ptr %args
  %wanted = ptr %args[1]
  %given = ptr %args[2]
  %kind1 = ptr %values[1]
  %kind2 = ptr %wanted[1]
  %kind3 = ptr %given[1]
  read asking
  read picks
  read ranked
  read rank_room
  read k
  read class
  api list
  api int
  api objectVectorcall
  %is1 = icmp eq ptr %kind1, %list
  %is2 = icmp eq ptr %kind2, %int
  %is3 = icmp eq ptr %kind3, %list
  %waits = icmp eq i64 %asking, 1
  %ok1 = and i1 %is1, %is2
  %ok2 = and i1 %is3, %waits
  %ok = and i1 %ok1, %ok2
  br i1 %ok, label %look, label %slow
look:
  api listSize
  api longAsLongLongAndOverflow
  %size = call i64 %listSize(ptr %values)
  %begins = call i64 %listSize(ptr %given)
  %many = call i64 %longAsLongLongAndOverflow(ptr %wanted, ptr %over)
  %many0 = sub i64 %many, 1
  %known = icmp ult i64 %many0, MOST
  %some = icmp sgt i64 %size, 0
  %equal = icmp eq i64 %size, %begins
  %end = add i64 %ranked, %size
  %fits = icmp sle i64 %end, %rank_room
  %first = icmp eq i64 %picks, 0
  %own = ptrtoint ptr %ours to i64
  %same1 = icmp eq i64 %many, %k
  %same2 = icmp eq i64 %own, %class
  %same = and i1 %same1, %same2
  %alike = or i1 %first, %same
  %good1 = and i1 %known, %some
  %good2 = and i1 %equal, %fits
  %good3 = and i1 %good1, %good2
  %good = and i1 %good3, %alike
  br i1 %good, label %each, label %slow
each:
  %i = phi i64 [ 0, %look ], [ %i1, %take ]
  %last = phi i64 [ -9223372036854775808, %look ], [ %last1, %take ]
  api listGetItem
  api float
  %one = call ptr %listGetItem(ptr %values, i64 %i)
  %number = call ptr %listGetItem(ptr %given, i64 %i)
  %type1 = ptr %one[1]
  %type2 = ptr %number[1]
  %right = icmp eq ptr %type1, %ours
  %isfloat = icmp eq ptr %type2, %float
  %both = and i1 %right, %isfloat
  br i1 %both, label %finite, label %slow
finite:
  api floatAsDouble
  %double = call double %floatAsDouble(ptr %number)
  %less = fcmp olt double %double, 0x7FF0000000000000
  br i1 %less, label %take, label %slow
take:
  %handle = i64 %one[2]
  %bits = bitcast double %double to i64
  read handles
  read plus
  %handles.to = inttoptr i64 %handles to ptr
  %plus.to = inttoptr i64 %plus to ptr
  %place = add i64 %ranked, %i
  %handles.to[%place] = i64 %handle
  %plus.to[%place] = i64 %bits
  %later = icmp sgt i64 %handle, %last
  %last1 = select i1 %later, i64 %handle, i64 %last
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %size
  br i1 %more, label %each, label %write
write:
  read ends
  %ends.to = inttoptr i64 %ends to ptr
  %picks1 = add i64 %picks, 1
  %ends.to[%picks1] = i64 %end
  store i64 %picks1, ptr %picks.at
  store i64 %end, ptr %ranked.at
  store i64 %many, ptr %k.at
  store i64 %own, ptr %class.at
  call void @see(ptr %state, i64 %last1)
  read best
  %best.to = inttoptr i64 %best to ptr
  %found = call ptr @wait(ptr %state, ptr %best.to)
  ret ptr %found
slow:
  %other = ptr %how[2]
  %result = call ptr %objectVectorcall(ptr %other, ptr %args, i64 %count, ptr null)
  ret ptr %result
}
""".replace("MOST", str(MOST_BEST))
