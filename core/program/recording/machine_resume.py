"""The machine code that goes on with who waits; see `machine_text`."""

from __future__ import annotations

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
