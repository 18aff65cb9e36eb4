"""The machine code that asks values for their numbers and goes on with who waits; see `machine_text`."""

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

RESUME = r"""
; The tape's answer to a question: an index, a bool, or what was picked; null where there is no memory.

define internal ptr @answer(ptr %state, i64 %i) {
entry:
  array answers
  %number = i64 %answers.to[%i]
  %isindex = icmp sge i64 %number, 0
  if %isindex index other
index:
  api longFromLongLong
  %found1 = call ptr %longFromLongLong(i64 %number)
  ret ptr %found1
other:
  %islist = icmp slt i64 %number, FALSE
  if %islist several truth
truth:
  api true false IncRef
  %yes = icmp eq i64 %number, TRUE
  %found2 = select i1 %yes, ptr %true, ptr %false
  call void %IncRef(ptr %found2)
  ret ptr %found2
several:
  array asks scores
  read rank_room
  api listNew listSetItem BuildValue DecRef
  %place = mul i64 %i, ASK_WORDS
  %row = getelementptr i64, ptr %asks.to, i64 %place
  %count = sub i64 FALSE, %number
  %first = i64 %row[5]
  %lanes = getelementptr i64, ptr %scores.to, i64 %rank_room
  %elements = getelementptr i32, ptr %lanes, i64 %rank_room
  %list = call ptr %listNew(i64 %count)
  %nolist = icmp eq ptr %list, null
  if %nolist end next
next:
  %j = phi i64 [ 0, %several ], [ %j1, %put ]
  %k = add i64 %first, %j
  %lane = i32 %lanes[%k]
  %element = i32 %elements[%k]
  %total = double %scores.to[%k]
  %tuple = call ptr (ptr, ...) %BuildValue(ptr @form, i32 %lane, i32 %element, double %total)
  %notuple = icmp eq ptr %tuple, null
  if %notuple lacking put
put:
  %set = call i32 %listSetItem(ptr %list, i64 %j, ptr %tuple)
  %j1 = add i64 %j, 1
  %more = icmp slt i64 %j1, %count
  if %more next end
lacking:
  call void %DecRef(ptr %list)
  ret ptr null
end:
  ret ptr %list
}

; The same for Python, which asks by the question's number.

define ptr @answered(ptr %self, ptr %args, i64 %count) {
entry:
  %how = ptr %self[2]
  %state = ptr %how[0]
  %number = ptr %args[0]
  api longAsLongLong
  %i = call i64 %longAsLongLong(ptr %number)
  %found = call ptr @answer(ptr %state, i64 %i)
  ret ptr %found
}

; A greenlet waits, having asked what it is told by: it switches to the next of those who go on, the last one
; to who began that. Gives the answer.

define internal ptr @wait(ptr %state, ptr %told) {
entry:
  %room_for_one = alloca ptr
  read owner resumed size
  %next = add i64 %resumed, 1
  %further = icmp slt i64 %next, %size
  if %further on back
on:
  array stops
  api IncRef listSetItem
  call void %IncRef(ptr %told)
  %set = call i32 %listSetItem(ptr %stops.to, i64 %resumed, ptr %told)
  %found1 = call ptr @switch(ptr %state, i64 %next, ptr %room_for_one)
  goto end
back:
  array switch
  api objectVectorcall
  store ptr %told, ptr %room_for_one
  %found2 = call ptr %objectVectorcall(ptr %switch.to, ptr %room_for_one, i64 1, ptr null)
  goto end
end:
  %found = phi ptr [ %found1, %on ], [ %found2, %back ]
  write owner %owner
  ret ptr %found
}

; Switches to one of those who go on, or sends a generator its answer.

define internal ptr @switch(ptr %state, i64 %i, ptr %room_for_one) {
entry:
  read sends
  array calls listed owners
  api listGetItem longAsLongLong objectVectorcall iterSend IncRef DecRef
  %owner = call ptr %listGetItem(ptr %owners.to, i64 %i)
  %own = call i64 %longAsLongLong(ptr %owner)
  write owner %own
  write resumed %i
  %one = call ptr %listGetItem(ptr %calls.to, i64 %i)
  %islisted = icmp ne i64 %listed, 0
  if %islisted item taped
item:
  %held = call ptr %listGetItem(ptr %listed.to, i64 %i)
  call void %IncRef(ptr %held)
  goto give
taped:
  %made = call ptr @answer(ptr %state, i64 %i)
  %none = icmp eq ptr %made, null
  if %none lacking give
lacking:
  ret ptr null
give:
  %answer = phi ptr [ %held, %item ], [ %made, %taped ]
  %sending = icmp ne i64 %sends, 0
  if %sending send switch
switch:
  store ptr %answer, ptr %room_for_one
  %came1 = call ptr %objectVectorcall(ptr %one, ptr %room_for_one, i64 1, ptr null)
  call void %DecRef(ptr %answer)
  ret ptr %came1
send:
  %code32 = call i32 %iterSend(ptr %one, ptr %answer, ptr %room_for_one)
  call void %DecRef(ptr %answer)
  %code = sext i32 %code32 to i64
  write sent %code
  %failed = icmp slt i64 %code, 0
  %got = load ptr, ptr %room_for_one
  %came2 = select i1 %failed, ptr null, ptr %got
  ret ptr %came2
}

; Goes on with some who wait, each of whom asks again, round after round: see `Recorder`. It is called
; with greenlets' switches or generators, as `asking` says; whose each is; a list of as many, where it puts
; what each stops with; and from which on.

define ptr @resume(ptr %self, ptr %args, i64 %count) {
entry:
  %room_for_one = alloca ptr
  %room_for_status = alloca i64
  %how = ptr %self[2]
  %state = ptr %how[0]
  %state64 = i64 %how[0]
  %calls = i64 %args[0]
  %owners = i64 %args[1]
  %stops = ptr %args[2]
  %stops64 = i64 %args[2]
  %begin = ptr %args[3]
  write calls %calls
  write owners %owners
  write stops %stops64
  read asking argmax above best
  api listSize listSetItem longAsLongLong longFromLongLong
  %from = call i64 %longAsLongLong(ptr %begin)
  %number = call i64 %listSize(ptr %stops)
  %sending = icmp eq i64 %asking, 2
  %sending64 = zext i1 %sending to i64
  %hands = select i1 %sending, i64 0, i64 %number
  write sends %sending64
  write size %hands
  %some = icmp slt i64 %from, %number
  if %some next end
next:
  %i = phi i64 [ %from, %entry ], [ %i1, %noted ], [ 0, %again ]
  %came = call ptr @switch(ptr %state, i64 %i, ptr %room_for_one)
  read resumed
  %failed = icmp eq ptr %came, null
  if %failed raise look
look:
  %way = load i64, ptr %asking.at
  read sent
  %asks = icmp eq i64 %way, 3
  %yielded = icmp eq i64 %sent, 1
  %yields = all %asks %yielded
  %waits = select i1 %sending, i1 %yields, i1 true
  %told = ptrtoint ptr %came to i64
  %is1 = icmp eq i64 %told, %argmax
  %is2 = icmp eq i64 %told, %above
  %is3 = icmp eq i64 %told, %best
  %is4 = or i1 %is1, %is2
  %is5 = or i1 %is3, %is4
  %is = all %is5 %waits
  %set = call i32 %listSetItem(ptr %stops, i64 %resumed, ptr %came)
  if %is noted end
noted:
  write asking %asking
  %i1 = add i64 %resumed, 1
  %further = icmp slt i64 %i1, %number
  if %further next whole
whole:
  read asked left
  %every = icmp eq i64 %asked, %number
  %may = icmp sgt i64 %left, 0
  %ok = and i1 %every, %may
  if %ok compute end
compute:
  array round
  api evalSaveThread evalRestoreThread
  %left1 = sub i64 %left, 1
  write left %left1
  %thread = call ptr %evalSaveThread()
  %raised = call i32 %round.to(ptr %room_for_status, ptr %room_for_one, i64 %state64)
  call void %evalRestoreThread(ptr %thread)
  %status = load i64, ptr %room_for_status
  %done = icmp eq i64 %status, DONE
  if %done again end
again:
  write listed 0
  goto next
end:
  %at = phi i64 [ %from, %entry ], [ %resumed, %look ], [ %number, %whole ], [ %number, %compute ]
  write size 0
  %found = call ptr %longFromLongLong(i64 %at)
  ret ptr %found
raise:
  write size 0
  ret ptr null
}

; Calls a function from a frame that says nothing of its own caller. A greenlet that is kept begins amid
; frames that are gone when it goes on later: what looks for callers, as errors of C++ do, must end here.

define ptr @bounded(ptr %self, ptr %args, i64 %count) nounwind {
entry:
  %function = ptr %args[0]
  api objectVectorcall
  %found = notail call ptr %objectVectorcall(ptr %function, ptr %args, i64 0, ptr null)
  ret ptr %found
}
"""
