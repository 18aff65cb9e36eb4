"""Waiting, and what goes on with all who wait, in machine code, in the short forms of `machine_code`."""

from __future__ import annotations

RESUME = r"""
; A greenlet waits, having asked what it is told by: it switches to the next of those who go on, the last one
; to who began that. Gives the answer.

define internal ptr @wait(ptr %state, ptr %told) {
entry:
  %room_for_one = alloca ptr
  read whose
  read resumed
  read size
  api objectVectorcall
  %next = add i64 %resumed, 1
  %further = icmp slt i64 %next, %size
  br i1 %further, label %on, label %back
on:
  read stops
  %stops.to = inttoptr i64 %stops to ptr
  api IncRef
  api listSetItem
  call void %IncRef(ptr %told)
  %set = call i32 %listSetItem(ptr %stops.to, i64 %resumed, ptr %told)
  %found1 = call ptr @switch(ptr %state, i64 %next, ptr %room_for_one)
  br label %end
back:
  read switch
  %switch.to = inttoptr i64 %switch to ptr
  store ptr %told, ptr %room_for_one
  %found2 = call ptr %objectVectorcall(ptr %switch.to, ptr %room_for_one, i64 1, ptr null)
  br label %end
end:
  %found = phi ptr [ %found1, %on ], [ %found2, %back ]
  store i64 %whose, ptr %whose.at
  ret ptr %found
}

; Switches to one of those who go on, or sends a generator its answer.

define internal ptr @switch(ptr %state, i64 %i, ptr %room_for_one) {
entry:
  read whose
  read resumed
  read sent
  read sends
  read calls
  read answers
  read owners
  %calls.to = inttoptr i64 %calls to ptr
  %answers.to = inttoptr i64 %answers to ptr
  %owners.to = inttoptr i64 %owners to ptr
  api listGetItem
  api longAsLongLong
  api objectVectorcall
  api iterSend
  %owner = call ptr %listGetItem(ptr %owners.to, i64 %i)
  %own = call i64 %longAsLongLong(ptr %owner)
  store i64 %own, ptr %whose.at
  store i64 %i, ptr %resumed.at
  %one = call ptr %listGetItem(ptr %calls.to, i64 %i)
  %answer = call ptr %listGetItem(ptr %answers.to, i64 %i)
  %sending = icmp ne i64 %sends, 0
  br i1 %sending, label %send, label %switch
switch:
  store ptr %answer, ptr %room_for_one
  %came1 = call ptr %objectVectorcall(ptr %one, ptr %room_for_one, i64 1, ptr null)
  ret ptr %came1
send:
  %code32 = call i32 %iterSend(ptr %one, ptr %answer, ptr %room_for_one)
  %code = sext i32 %code32 to i64
  store i64 %code, ptr %sent.at
  %failed = icmp slt i64 %code, 0
  %got = load ptr, ptr %room_for_one
  %came2 = select i1 %failed, ptr null, ptr %got
  ret ptr %came2
}

; Goes on with some who wait, each of whom asks again. It knows the state, and is called with greenlets'
; switches or generators, as `asking` says; the answers; whose each is; a list of as many, where it puts what
; each stops with; and from which on. It gives the place of the first that stops otherwise than by a question
; that is noted, or how many there are.

define ptr @resume(ptr %self, ptr %args, i64 %count) {
entry:
  %room_for_one = alloca ptr
  %how = ptr %self[2]
  %state = load ptr, ptr %how
  %list1 = i64 %args[0]
  %list2 = i64 %args[1]
  %list3 = i64 %args[2]
  %list4 = i64 %args[3]
  %begin = ptr %args[4]
  read calls
  read answers
  read owners
  read stops
  store i64 %list1, ptr %calls.at
  store i64 %list2, ptr %answers.at
  store i64 %list3, ptr %owners.at
  store i64 %list4, ptr %stops.at
  read asking
  read size
  read sends
  read resumed
  read sent
  read argmax
  read above
  read best
  api listSize
  api listSetItem
  api longAsLongLong
  api longFromLongLong
  %from = call i64 %longAsLongLong(ptr %begin)
  %list1.to = inttoptr i64 %list1 to ptr
  %list4.to = inttoptr i64 %list4 to ptr
  %number = call i64 %listSize(ptr %list1.to)
  %sending = icmp eq i64 %asking, 2
  %sending64 = zext i1 %sending to i64
  %hands = select i1 %sending, i64 0, i64 %number
  store i64 %sending64, ptr %sends.at
  store i64 %hands, ptr %size.at
  %some = icmp slt i64 %from, %number
  br i1 %some, label %next, label %end
next:
  %i = phi i64 [ %from, %entry ], [ %i1, %noted ]
  %came = call ptr @switch(ptr %state, i64 %i, ptr %room_for_one)
  %now = load i64, ptr %resumed.at
  %failed = icmp eq ptr %came, null
  br i1 %failed, label %raise, label %look
look:
  %way = load i64, ptr %asking.at
  %code = load i64, ptr %sent.at
  %asks = icmp eq i64 %way, 3
  %yielded = icmp eq i64 %code, 1
  %yields = and i1 %asks, %yielded
  %waits = select i1 %sending, i1 %yields, i1 true
  %told = ptrtoint ptr %came to i64
  %is1 = icmp eq i64 %told, %argmax
  %is2 = icmp eq i64 %told, %above
  %is3 = icmp eq i64 %told, %best
  %is4 = or i1 %is1, %is2
  %is5 = or i1 %is3, %is4
  %is = and i1 %is5, %waits
  %set = call i32 %listSetItem(ptr %list4.to, i64 %now, ptr %came)
  br i1 %is, label %noted, label %end
noted:
  store i64 %asking, ptr %asking.at
  %i1 = add i64 %now, 1
  %further = icmp slt i64 %i1, %number
  br i1 %further, label %next, label %end
end:
  %place = phi i64 [ %from, %entry ], [ %now, %look ], [ %number, %noted ]
  store i64 0, ptr %size.at
  %told.place = call ptr %longFromLongLong(i64 %place)
  ret ptr %told.place
raise:
  store i64 0, ptr %size.at
  ret ptr null
}
"""
