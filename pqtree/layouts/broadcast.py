"""Closing a tree under broadcast, on flat arrays: what one operand of a batch demands, all demand.

BroadcastConstraint of ED-Batch's Algorithm 2, as far as items (operands) are added. Adding is a stack of
levels; a level that cannot be is taken back whole. Like `kernel.py`, every function runs as plain Python on
lists, or compiled on int32 arrays. The rows of its table `C` are named here.
"""

from __future__ import annotations

from typing import Any

from abw.pqtree.kernel import encode_row, reduce_row
from abw.pqtree.layouts.ties import Arrays, consistent, outline, tie, untie
from abw.pqtree.table import CHANGED, KEPT, REJECTED, Journal, Table, undo

ENTRIES = ("hold", "agree")

# by item: its lanes' begin in LANES, its batch, whether it is added, the one of its batch added before (-1:
# none), and scratch: in which reduction it was met last, and how often
BEGIN, BATCH, IN, BELOW, MET, HITS = range(6)
LANES = 6
# by variable: where the items of three lanes or more that have it begin in READERS
READ_BEGIN, READERS = 7, 8
# by batch: the item of it added last (-1: none), whether it waits to be settled; those that wait
TOP, QUEUED, QUEUE = 9, 10, 11
# the items added in order; by level: how many were added before it, and the journal's top
ORDER, LEVEL_BEGIN, LEVEL_MARK = 12, 13, 14
# by place: the code of an operand, its nodes, its outline; by lane or variable: scratch
CODE, NODES, END, UP, LANE, ROW = range(15, 21)
HEAD = 21
ADDED, LEVELS, WAITING, REDUCTION = range(4)  # in HEAD

State = Any  # a list of 22 lists, or a table of int32


def done(answer: int) -> bool:
    """Whether a reduction was made."""
    return answer in (KEPT, CHANGED)


def lanes_of(C: State, item: int) -> int:
    """How many lanes an item has."""
    return int(C[BEGIN][item + 1] - C[BEGIN][item])


def hold(T: Table, J: Journal, W: Table, C: State, some: Table, firm: int, group: int) -> int:
    """Let some items be the added ones, `group` of them a level; those from number `firm` on where they fit.

    Keeps what the order has in common at its beginning. Stops where one of the first `firm` cannot be added.
    Returns how many are, or that there is no room.
    """
    head, order = C[HEAD], C[ORDER]
    common = 0
    while common < firm and common < head[ADDED] and some[common] == order[common]:
        common += 1
    back(T, J, W, C, common if group == 1 else 0)
    for at in range(head[ADDED], len(some), group):
        answer = push(T, J, W, C, some, at, min(at + group, len(some)))
        if answer < REJECTED:
            return answer
        if answer == REJECTED and at < firm:
            break
    return int(head[ADDED])


def push(T: Table, J: Journal, W: Table, C: State, some: Table, low: int, high: int) -> int:
    """Add the items some[low:high] as a level if adjacency allows: 1; REJECTED, or that there is no room."""
    head = C[HEAD]
    before, level = head[ADDED], head[LEVELS]
    C[LEVEL_BEGIN][level] = before
    C[LEVEL_MARK][level] = J[0]
    head[LEVELS] = level + 1
    for i in range(low, high):
        item = some[i]
        batch = C[BATCH][item]
        C[ORDER][head[ADDED]] = item
        head[ADDED] += 1
        C[IN][item] = 1
        C[BELOW][item] = C[TOP][batch]
        C[TOP][batch] = item
    answer = KEPT
    for i in range(low, high):
        item = some[i]
        for lane in range(lanes_of(C, item)):
            C[ROW][lane] = C[LANES][C[BEGIN][item] + lane]
        answer = narrow(T, J, W, C, lanes_of(C, item))
        if not done(answer):
            break
        wait(C, C[BATCH][item])
    while head[WAITING] > 0 and done(answer):
        head[WAITING] -= 1
        batch = C[QUEUE][head[WAITING]]
        C[QUEUED][batch] = 0
        answer = settle(T, J, W, C, C[TOP][batch])
    if done(answer):
        return 1
    while head[WAITING] > 0:
        head[WAITING] -= 1
        C[QUEUED][C[QUEUE][head[WAITING]]] = 0
    back(T, J, W, C, before)
    return answer


def back(T: Table, J: Journal, W: Table, C: State, size: int) -> None:
    """Take back all but the first `size` items added, and those of one level with one taken back."""
    head = C[HEAD]
    while head[ADDED] > size:
        head[LEVELS] -= 1
        undo(T, J, C[LEVEL_MARK][head[LEVELS]])
        while head[ADDED] > C[LEVEL_BEGIN][head[LEVELS]]:
            head[ADDED] -= 1
            item = C[ORDER][head[ADDED]]
            C[IN][item] = 0
            C[TOP][C[BATCH][item]] = C[BELOW][item]


def wait(C: State, batch: int) -> None:
    """Let a batch wait to be settled."""
    if C[QUEUED][batch] == 0:
        C[QUEUED][batch] = 1
        C[QUEUE][C[HEAD][WAITING]] = batch
        C[HEAD][WAITING] += 1


def narrow(T: Table, J: Journal, W: Table, C: State, size: int) -> int:
    """Reduce the row of `size` variables in ROW; the batches wait whose operands it may have changed.

    An operand outside the row, or wholly inside, keeps its shape: its part of the tree is empty or full.
    """
    row = C[ROW]
    answer = reduce_row(T, J, W, row, 0, size)
    if answer != CHANGED:
        return answer
    C[HEAD][REDUCTION] += 1
    reduction = C[HEAD][REDUCTION]
    for i in range(size):
        for at in range(C[READ_BEGIN][row[i]], C[READ_BEGIN][row[i] + 1]):
            item = C[READERS][at]
            if C[MET][item] != reduction:
                C[MET][item] = reduction
                C[HITS][item] = 0
            C[HITS][item] += 1
    for i in range(size):
        for at in range(C[READ_BEGIN][row[i]], C[READ_BEGIN][row[i] + 1]):
            item = C[READERS][at]
            if C[IN][item] == 1 and C[HITS][item] < lanes_of(C, item):
                wait(C, C[BATCH][item])
    return answer


def settle(T: Table, J: Journal, W: Table, C: State, top: int) -> int:
    """Give all added operands of a batch one shape: the last gathers what all demand, then hands it on."""
    if lanes_of(C, top) < 3:
        return KEPT
    answer = KEPT
    for gathering in range(2):
        item = C[BELOW][top]
        while item >= 0 and done(answer):
            a, b = (item, top) if gathering == 0 else (top, item)
            answer = demand(T, J, W, C, a, b)
            item = C[BELOW][item]
    return answer


def demand(T: Table, J: Journal, W: Table, C: State, a: int, b: int) -> int:
    """Reduce by what item b has to be adjacent since item a has."""
    code, ends, lane, row = C[CODE], C[END], C[LANE], C[ROW]
    first, other = C[BEGIN][a], C[BEGIN][b]
    lanes = lanes_of(C, a)
    size = encode_row(T, J, W, C[LANES], first, first + lanes, code, C[NODES])
    if size == lanes + 1 and code[0] % 2 == 0:
        return KEPT  # one P-node
    outline(code, size, ends, C[UP])
    for i in range(lanes):
        lane[C[LANES][first + i]] = i
    for at in range(size):
        # below the root what is under a P-node is a row, and under a Q-node any two neighbours are one
        is_q = code[at] < 0 and code[at] % 2 == 1
        rows = -code[at] // 2 - 1 if is_q else int(code[at] < 0 < at)
        begin = at + 1 if is_q else at
        for _ in range(rows):
            count = 0
            for place in range(begin, ends[ends[begin]] if is_q else ends[begin]):
                if code[place] >= 0:
                    row[count] = C[LANES][other + lane[code[place]]]
                    count += 1
            answer = narrow(T, J, W, C, count)
            if not done(answer):
                return answer
            begin = ends[begin]
    return KEPT


def agree(T: Table, J: Journal, W: Table, C: State, A: Arrays) -> bool:
    """Whether the added items of each batch can have one order of lanes; A holds the ties then."""
    untie(T, J, W, A)
    for i in range(C[HEAD][ADDED]):
        item = C[ORDER][i]
        other = C[BELOW][item]
        if other >= 0 and not tie(T, J, W, A, C[LANES], C[BEGIN][other], C[BEGIN][item], lanes_of(C, item)):
            return False
    return consistent(T, J, W, A)
