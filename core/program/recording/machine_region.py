"""The machine code that records several calls at once, by a list of instructions; see `machine_text`.

It has *registers*, which hold objects (the arguments first), *operands*, each of three words (0, a handle and
1; 1, the first handle and how many nodes there are one after the other; 2, a list or tuple of values and its
length), and a stack of objects that are made for the result. An instruction is its number among
`INSTRUCTIONS` and its words. Nothing is recorded before `commit`: where an instruction before it finds
another thing than it should, or no room on the tape, the call is left to another function.
"""

from __future__ import annotations

from collections.abc import Iterable

# - value REGISTER CLASS OPERAND: a value of the class
# - given REGISTER CLASS OPERAND FUNCTION: a value of the class that a function makes of an object
# - row REGISTER OPERAND HANDLE COUNT: a whole number below the count; HANDLE is that of row 0
# - values REGISTER CLASS OPERAND LEAST: a list or tuple of so many values of the class, or more
# - items REGISTER TYPE COUNT TO: a list or tuple of so many things, which registers from TO on get
# - fields REGISTER TYPE COUNT TO: an object whose fields registers get
# - same REGISTER OBJECT: that object
# - alike OPERAND OPERAND: lists of one length
# - cell NUMBER INPUTS OUTPUTS OVER …: a node of a type, or as many as the operand OVER has (-1: one); it ends
#   with the operands of its inputs, and of each output the operand and what is added to a node's handle
# - reduce NUMBER OPERAND OPERAND ADDED: a reduction of a list; of one value, that value
# - made OPERAND CLASS, all OPERAND CLASS, handles OPERAND: a value, a list of all values, or of their handles
# - held REGISTER, constant OBJECT, length OPERAND: that object, or a number
# - sequence IS_LIST COUNT, object TYPE COUNT: a list or tuple, or an object with fields, of the last objects
INSTRUCTIONS = (
    "value", "given", "row", "values", "items", "fields", "same", "alike", "cell", "reduce", "commit", "made",
    "all", "handles", "held", "constant", "length", "sequence", "object", "return",
)  # fmt: skip
_NUMBERS = {name: number for number, name in enumerate(INSTRUCTIONS)}


def words_of(instructions: Iterable[tuple[str | int, ...]]) -> list[int]:
    """Instructions, each a name and words, in words."""
    return [word if isinstance(word, int) else _NUMBERS[word] for one in instructions for word in one]


REGION = r"""
; A stretch of calls: the state, how many arguments, the function for other calls, where registers, operands
; and the stack are; the instructions.

define internal void @operand(ptr %operands, i64 %i, i64 %kind, i64 %what, i64 %length) {
  %at = mul i64 %i, 3
  %operand = getelementptr i64, ptr %operands, i64 %at
  %operand[0] = i64 %kind
  %operand[1] = i64 %what
  %operand[2] = i64 %length
  ret void
}

define internal i64 @handle(ptr %operands, i64 %which, i64 %i, i64 %step) {
entry:
  %at = mul i64 %which, 3
  %operand = getelementptr i64, ptr %operands, i64 %at
  %kind = i64 %operand[0]
  %what = i64 %operand[1]
  %many = icmp eq i64 %kind, 2
  if %many listed node
listed:
  %things = ptr %operand[1]
  %value = call ptr @item(ptr %things, i64 %i)
  %held = i64 %value[2]
  ret i64 %held
node:
  %each = mul i64 %kind, %step
  %offset = mul i64 %each, %i
  %handle = add i64 %what, %offset
  ret i64 %handle
}

define internal i64 @word(ptr %operands, i64 %which, i64 %number) {
  %begin = mul i64 %which, 3
  %at = add i64 %begin, %number
  %found = i64 %operands[%at]
  ret i64 %found
}

define ptr @region(ptr %self, ptr %args, i64 %count, ptr %names) {
entry:
  %own = ptr %self[2]
  %state = ptr %own[0]
  %wanted = i64 %own[1]
  %registers = ptr %own[3]
  %operands = ptr %own[4]
  %stack = ptr %own[5]
  %program = getelementptr i64, ptr %own, i64 6
  %words = ptr %state[0]
  read at limit next step owner
  %atp = alloca i64
  %nextp = alloca i64
  %pcp = alloca ptr
  %topp = alloca ptr
  %over = alloca i32
  api listNew listSetItem tupleNew tupleSetItem typeGenericAlloc longFromLongLong
  api IncRef DecRef objectVectorcall
  store i64 %at, ptr %atp
  store i64 %next, ptr %nextp
  store ptr %program, ptr %pcp
  store ptr %stack, ptr %topp
  %every = icmp eq i64 %count, %wanted
  %plain = icmp eq ptr %names, null
  %ok = and i1 %every, %plain
  if %ok copy other
copy:
  %a = phi i64 [ 0, %entry ], [ %a1, %copied ]
  %left = icmp slt i64 %a, %count
  if %left copied go
copied:
  %arg = i64 %args[%a]
  %registers[%a] = i64 %arg
  %a1 = add i64 %a, 1
  goto copy
go:
  %pc = load ptr, ptr %pcp
  %code = i64 %pc[0]
  %x = i64 %pc[1]
  %y = i64 %pc[2]
  %z = i64 %pc[3]
  %w = i64 %pc[4]
  %yp = inttoptr i64 %y to ptr
  switch i64 %code, label %return [ CASES ]
by2:
  goto by
by3:
  goto by
by4:
  goto by
by5:
  goto by
by:
  %skip = phi i64 [ 2, %by2 ], [ 3, %by3 ], [ 4, %by4 ], [ 5, %by5 ], [ %cellwords, %ended ], [ 1, %commit ]
  %following = getelementptr i64, ptr %pc, i64 %skip
  store ptr %following, ptr %pcp
  goto go

value:
  %v = ptr %registers[%x]
  %vclass = i64 %v[1]
  %vright = icmp eq i64 %vclass, %y
  if %vright taken other
taken:
  %vhandle = i64 %v[2]
  call void @operand(ptr %operands, i64 %z, i64 0, i64 %vhandle, i64 1)
  goto by4

given:
  %gslot = getelementptr ptr, ptr %registers, i64 %x
  %gf = inttoptr i64 %w to ptr
  %gvalue = call ptr %objectVectorcall(ptr %gf, ptr %gslot, i64 1, ptr null)
  %gfailed = icmp eq ptr %gvalue, null
  if %gfailed failed got
got:
  %gclass = i64 %gvalue[1]
  %ghandle = i64 %gvalue[2]
  call void %DecRef(ptr %gvalue)
  %gright = icmp eq i64 %gclass, %y
  call void @operand(ptr %operands, i64 %z, i64 0, i64 %ghandle, i64 1)
  if %gright by5 other

row:
  %n = ptr %registers[%x]
  %ntype = ptr %n[1]
  api int longAsLongLongAndOverflow
  %nint = icmp eq ptr %ntype, %int
  if %nint number other
number:
  %rown = call i64 %longAsLongLongAndOverflow(ptr %n, ptr %over)
  %inside = icmp ult i64 %rown, %w
  if %inside numbered other
numbered:
  %shifted = shl i64 %rown, ROW_BITS
  %rowhandle = sub i64 %z, %shifted
  call void @operand(ptr %operands, i64 %y, i64 0, i64 %rowhandle, i64 1)
  goto by5

values:
  %vs = ptr %registers[%x]
  %vsn = call i64 @length(ptr %vs)
  %vssome = icmp sge i64 %vsn, %w
  if %vssome each other
each:
  %vi = phi i64 [ 0, %values ], [ %vi1, %next1 ]
  %vone = call ptr @item(ptr %vs, i64 %vi)
  %vtype = i64 %vone[1]
  %vgood = icmp eq i64 %vtype, %y
  if %vgood next1 other
next1:
  %vi1 = add i64 %vi, 1
  %vmore = icmp slt i64 %vi1, %vsn
  if %vmore each listed
listed:
  %vsint = ptrtoint ptr %vs to i64
  call void @operand(ptr %operands, i64 %z, i64 2, i64 %vsint, i64 %vsn)
  goto by5

items:
  %s = ptr %registers[%x]
  %stype = i64 %s[1]
  %sright = icmp eq i64 %stype, %y
  %sn = call i64 @length(ptr %s)
  %snright = icmp eq i64 %sn, %z
  %sgood = and i1 %sright, %snright
  if %sgood item other
item:
  %si = phi i64 [ 0, %items ], [ %si1, %inside1 ]
  %smore = icmp slt i64 %si, %sn
  if %smore inside1 by5
inside1:
  %sone = call ptr @item(ptr %s, i64 %si)
  %soneint = ptrtoint ptr %sone to i64
  %sto = add i64 %w, %si
  %registers[%sto] = i64 %soneint
  %si1 = add i64 %si, 1
  goto item

fields:
  %f = ptr %registers[%x]
  %ftype = i64 %f[1]
  %fright = icmp eq i64 %ftype, %y
  if %fright field other
field:
  %fi = phi i64 [ 0, %fields ], [ %fi1, %there ]
  %fat = add i64 %fi, 2
  %fone = i64 %f[%fat]
  %fset = icmp ne i64 %fone, 0
  if %fset there other
there:
  %fto = add i64 %w, %fi
  %registers[%fto] = i64 %fone
  %fi1 = add i64 %fi, 1
  %fmore = icmp slt i64 %fi1, %z
  if %fmore field by5

same:
  %is = i64 %registers[%x]
  %equal = icmp eq i64 %is, %y
  if %equal by3 other

alike:
  %length0 = call i64 @word(ptr %operands, i64 %x, i64 2)
  %length1 = call i64 @word(ptr %operands, i64 %y, i64 2)
  %lengths = icmp eq i64 %length0, %length1
  if %lengths by3 other

cell:
  %single = icmp slt i64 %w, 0
  if %single begin rows
rows:
  %rowsn = call i64 @word(ptr %operands, i64 %w, i64 2)
  goto begin
begin:
  %nodes = phi i64 [ 1, %cell ], [ %rowsn, %rows ]
  %cat = load i64, ptr %atp
  %cnext = load i64, ptr %nextp
  %each1 = add i64 %y, 1
  %cwords = mul i64 %each1, %nodes
  %cend = add i64 %cat, %cwords
  %fits = icmp sle i64 %cend, %limit
  %first = or i64 %x, %owner
  %reads = getelementptr i64, ptr %pc, i64 5
  if %fits node other
node:
  %k = phi i64 [ 0, %begin ], [ %k1, %done ]
  %kat = phi i64 [ %cat, %begin ], [ %kat1, %done ]
  %kwords = getelementptr i64, ptr %words, i64 %kat
  store i64 %first, ptr %kwords
  goto input
input:
  %j = phi i64 [ 0, %node ], [ %j1, %read ]
  %jmore = icmp slt i64 %j, %y
  if %jmore read done
read:
  %jwhich = i64 %reads[%j]
  %jhandle = call i64 @handle(ptr %operands, i64 %jwhich, i64 %k, i64 %step)
  %j1 = add i64 %j, 1
  %kwords[%j1] = i64 %jhandle
  goto input
done:
  %k1 = add i64 %k, 1
  %kat1 = add i64 %kat, %each1
  %kmore = icmp slt i64 %k1, %nodes
  if %kmore node written
written:
  %cstep = mul i64 %step, %nodes
  %cnext1 = add i64 %cnext, %cstep
  store i64 %cend, ptr %atp
  store i64 %cnext1, ptr %nextp
  %outs = getelementptr i64, ptr %reads, i64 %y
  %several = xor i1 %single, 1
  %outkind = zext i1 %several to i64
  goto output
output:
  %o = phi i64 [ 0, %written ], [ %o1, %output ]
  %twice = shl i64 %o, 1
  %out = getelementptr i64, ptr %outs, i64 %twice
  %owhich = i64 %out[0]
  %oadded = i64 %out[1]
  %ohandle = add i64 %cnext, %oadded
  call void @operand(ptr %operands, i64 %owhich, i64 %outkind, i64 %ohandle, i64 %nodes)
  %o1 = add i64 %o, 1
  %omore = icmp slt i64 %o1, %z
  if %omore output ended
ended:
  %outwords = shl i64 %z, 1
  %inwords = add i64 %y, 5
  %cellwords = add i64 %inwords, %outwords
  goto by

reduce:
  %rn = call i64 @word(ptr %operands, i64 %y, i64 2)
  %rone = icmp eq i64 %rn, 1
  if %rone alone sum
alone:
  %rhandle = call i64 @handle(ptr %operands, i64 %y, i64 0, i64 %step)
  goto reduced
sum:
  %rat = load i64, ptr %atp
  %rbegin = add i64 %rat, 2
  %rend = add i64 %rbegin, %rn
  %rfits = icmp sle i64 %rend, %limit
  %rwords = getelementptr i64, ptr %words, i64 %rat
  if %rfits numbers other
numbers:
  %rfirst = or i64 %x, %owner
  %rwords[0] = i64 %rfirst
  %rwords[1] = i64 %rn
  goto part
part:
  %ri = phi i64 [ 0, %numbers ], [ %ri1, %part ]
  %rpart = call i64 @handle(ptr %operands, i64 %y, i64 %ri, i64 %step)
  %rto = add i64 %ri, 2
  %rwords[%rto] = i64 %rpart
  %ri1 = add i64 %ri, 1
  %rmore = icmp slt i64 %ri1, %rn
  if %rmore part summed
summed:
  %rnext = load i64, ptr %nextp
  %rnext1 = add i64 %rnext, %step
  store i64 %rend, ptr %atp
  store i64 %rnext1, ptr %nextp
  %rmade = add i64 %rnext, %w
  goto reduced
reduced:
  %rresult = phi i64 [ %rhandle, %alone ], [ %rmade, %summed ]
  call void @operand(ptr %operands, i64 %z, i64 0, i64 %rresult, i64 1)
  goto by5

commit:
  %atlast = load i64, ptr %atp
  %nextlast = load i64, ptr %nextp
  write at %atlast
  write next %nextlast
  goto by

made:
  %mhandle = call i64 @handle(ptr %operands, i64 %x, i64 0, i64 %step)
  %mvalue = call ptr @make(ptr %yp, i64 %mhandle)
  call void @push(ptr %topp, ptr %mvalue)
  %mnone = icmp eq ptr %mvalue, null
  if %mnone failed by3

all:
  %an = call i64 @word(ptr %operands, i64 %x, i64 2)
  %akind = call i64 @word(ptr %operands, i64 %x, i64 0)
  %there2 = icmp eq i64 %akind, 2
  if %there2 copied2 listed2
copied2:
  api sequenceList
  %awhat = call i64 @word(ptr %operands, i64 %x, i64 1)
  %athings = inttoptr i64 %awhat to ptr
  %acopy = call ptr %sequenceList(ptr %athings)
  call void @push(ptr %topp, ptr %acopy)
  %acnone = icmp eq ptr %acopy, null
  if %acnone failed by3
listed2:
  %alist = call ptr %listNew(i64 %an)
  %anone = icmp eq ptr %alist, null
  if %anone failed element
element:
  %ai = phi i64 [ 0, %listed2 ], [ %ai1, %set ]
  %ahandle = call i64 @handle(ptr %operands, i64 %x, i64 %ai, i64 %step)
  %avalue = call ptr @make(ptr %yp, i64 %ahandle)
  %alacks = icmp eq ptr %avalue, null
  if %alacks failed set
set:
  %aset = call i32 %listSetItem(ptr %alist, i64 %ai, ptr %avalue)
  %ai1 = add i64 %ai, 1
  %amore = icmp slt i64 %ai1, %an
  if %amore element listmade
listmade:
  call void @push(ptr %topp, ptr %alist)
  goto by3

handles:
  %hn = call i64 @word(ptr %operands, i64 %x, i64 2)
  %hlist = call ptr %listNew(i64 %hn)
  call void @push(ptr %topp, ptr %hlist)
  %hnone = icmp eq ptr %hlist, null
  if %hnone failed handle
handle:
  %hi = phi i64 [ 0, %handles ], [ %hi1, %handled ]
  %hone = call i64 @handle(ptr %operands, i64 %x, i64 %hi, i64 %step)
  %hint = call ptr %longFromLongLong(i64 %hone)
  %hlacks = icmp eq ptr %hint, null
  if %hlacks failed handled
handled:
  %hset = call i32 %listSetItem(ptr %hlist, i64 %hi, ptr %hint)
  %hi1 = add i64 %hi, 1
  %hmore = icmp slt i64 %hi1, %hn
  if %hmore handle by2

held:
  %h = ptr %registers[%x]
  goto kept
constant:
  %c = inttoptr i64 %x to ptr
  goto kept
kept:
  %old = phi ptr [ %h, %held ], [ %c, %constant ]
  call void %IncRef(ptr %old)
  call void @push(ptr %topp, ptr %old)
  goto by2

length:
  %ln = call i64 @word(ptr %operands, i64 %x, i64 2)
  %lint = call ptr %longFromLongLong(i64 %ln)
  call void @push(ptr %topp, ptr %lint)
  %lnone = icmp eq ptr %lint, null
  if %lnone failed by2

sequence:
  %islist = icmp ne i64 %x, 0
  %newf = select i1 %islist, ptr %listNew, ptr %tupleNew
  %setf = select i1 %islist, ptr %listSetItem, ptr %tupleSetItem
  %made1 = call ptr %newf(i64 %y)
  %madenone = icmp eq ptr %made1, null
  if %madenone failed pop
pop:
  %qlow = call ptr @drop(ptr %topp, i64 %y)
  goto fill
fill:
  %qi = phi i64 [ 0, %pop ], [ %qi1, %put ]
  %qmore = icmp slt i64 %qi, %y
  if %qmore put filled
put:
  %qone = ptr %qlow[%qi]
  %qset = call i32 %setf(ptr %made1, i64 %qi, ptr %qone)
  %qi1 = add i64 %qi, 1
  goto fill
filled:
  call void @push(ptr %topp, ptr %made1)
  goto by3

object:
  %xp = inttoptr i64 %x to ptr
  %new = call ptr %typeGenericAlloc(ptr %xp, i64 0)
  %newnone = icmp eq ptr %new, null
  if %newnone failed popped
popped:
  %nlow = call ptr @drop(ptr %topp, i64 %y)
  goto fields1
fields1:
  %gi = phi i64 [ 0, %popped ], [ %gi1, %fields1 ]
  %gone = i64 %nlow[%gi]
  %gat = add i64 %gi, 2
  %new[%gat] = i64 %gone
  %gi1 = add i64 %gi, 1
  %gmore = icmp slt i64 %gi1, %y
  if %gmore fields1 whole
whole:
  call void @push(ptr %topp, ptr %new)
  goto by3

return:
  %result = ptr %stack[0]
  ret ptr %result
failed:
  ret ptr null
other:
  %function = ptr %own[2]
  %found = call ptr %objectVectorcall(ptr %function, ptr %args, i64 %count, ptr %names)
  ret ptr %found
}

define internal void @push(ptr %topp, ptr %object) {
  %top = load ptr, ptr %topp
  store ptr %object, ptr %top
  %top1 = getelementptr ptr, ptr %top, i64 1
  store ptr %top1, ptr %topp
  ret void
}

define internal ptr @drop(ptr %topp, i64 %count) {
  %top = load ptr, ptr %topp
  %down = sub i64 0, %count
  %low = getelementptr ptr, ptr %top, i64 %down
  store ptr %low, ptr %topp
  ret ptr %low
}
"""
