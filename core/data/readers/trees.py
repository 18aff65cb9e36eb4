"""Bracketed trees: one on each line, `(label child child)`, leaves `(label word)`."""

from __future__ import annotations

import numpy as np

from abw.core.data.feed import Bytes, Feed, Source, count_where
from abw.core.data.instances import Instances, Ints, Link
from abw.core.data.intern import intern
from abw.core.data.links import Lazy, inverse, single, where
from abw.core.data.readers.blanks import CONTROL, control, kept, parsed
from abw.core.ir.formats import SCHEMAS
from abw.core.jit.decorators import njit

_UNCLOSED, _CLOSED_TWICE, _NO_TREE, _BEHIND, _NO_LABEL, _NO_WORD, _MIXED, _CONTROL = range(1, 9)
_FAULTS = {
    _UNCLOSED: ("the line ends inside a tree", "a ')' is missing: write each tree on one line"),
    _CLOSED_TWICE: ("a ')' without its '('", "a line holds one tree, closed once"),
    _NO_TREE: (
        "text where a tree should begin",
        "a tree begins with '(' and its label: (3 (2 It) (4 works))",
    ),
    _BEHIND: ("text after the tree", "a line holds one tree"),
    _NO_LABEL: ("a node without a label", "write the label behind the '(': (NP (DT the) (NN dog))"),
    _NO_WORD: ("a leaf without a word", "a leaf is a label and a word: (2 It)"),
    _CONTROL: CONTROL,
    _MIXED: ("a word beside another word or a node", "a node has nodes, or one word: (NP (DT the) (NN dog))"),
}
_INSTANCE, _INTERNAL, _LEAF = map(SCHEMAS["trees"].kinds.index, ("instance", "internal", "leaf"))
_LETTER, _BLANK, _OPEN, _CLOSE = range(4)
_MARKS = np.full(256, _LETTER, np.uint8)
_MARKS[:33] = _BLANK
_MARKS[ord("(")] = _OPEN
_MARKS[ord(")")] = _CLOSE
_BEFORE, _OPENED, _LABELLED, _WORDED, _PARENT, _AFTER = range(6)
# What is wrong with a mark where a line is before its tree, behind a bracket, a label, a word, nodes, or the
# tree; 0: nothing.
_WRONG = np.zeros((4, 6), np.uint8)
_WRONG[_LETTER] = _NO_TREE, 0, 0, _MIXED, _MIXED, _BEHIND
_WRONG[_OPEN] = 0, _NO_LABEL, 0, _MIXED, 0, _BEHIND
_WRONG[_CLOSE] = _CLOSED_TWICE, _NO_LABEL, _NO_WORD, 0, 0, _CLOSED_TWICE


def read_trees(feed: Feed, skip: int, limit: int) -> Instances:
    """Trees `skip` to `skip + limit` of what is left of a file; the nodes of each come in preorder.

    Errors: DataError. Cost: about 60 ns a node.
    """
    found = parsed(feed, skip, limit, parse_trees, _room, 6, _FAULTS)
    source, kind, columns, start, line, numbers = found[:6]
    feed.take(source, found.end, found.seen)
    (parent, right), label, word = columns[:2], columns[2:4], columns[4:]
    count, roots = len(kind), start[:-1]

    def first_child() -> Link:
        return Link(where(right >= 0, np.arange(1, count + 1, dtype=np.int32)))

    labels = Lazy({"label": lambda: intern(source.data, *label)})
    words, word_words = intern(source.data, *word)
    links = {
        "left": first_child,
        "right": lambda: Link(right),
        "children": lambda: inverse(parent),
        "parent": lambda: Link(parent),
        "root": lambda: single(roots, roots + 1, count),
    }
    fields = Lazy({"label": lambda: labels["label"][0], "word": lambda: words})
    names = Lazy({"label": lambda: labels["label"][1], "word": lambda: word_words})
    return Instances(SCHEMAS["trees"], kind, start, Lazy(links), fields, names, source.path, line, numbers)


def _room(source: Source) -> int:
    """No fewer than the vertices of a source."""
    return 1 + source.ends + count_where(lambda block: block == ord("("), source.text)


@njit
def parse_trees(
    text: Bytes, at: int, skip: int, stop: int, kind: Bytes, columns: Ints, rows: Ints
) -> tuple[int, int, int, int]:
    """Parse trees (see `parsed`); a vertex's columns are its parent and its last child (-1: none), and the
    offsets of its label and of its word.

    Any byte up to 32 is a blank, but a line of control characters alone is a fault.
    """
    parent, right, label, word = columns[0], columns[1], columns[2:4], columns[4:6]
    n = seen = 0
    line = 1
    while at < text.size and seen < stop:
        begin = at
        first = node = n  # what is open: at first the instance's own vertex
        n += 1
        state = _BEFORE
        while at < text.size and text[at] != 10:
            mark = _MARKS[text[at]]
            if mark == _BLANK:
                at += 1
                continue
            if _WRONG[mark, state]:
                return seen, n, at, int(_WRONG[mark, state])
            if mark == _OPEN:
                kind[node] = _INTERNAL
                right[node] = n
                kind[n] = _LEAF
                parent[n] = node
                right[n] = -1
                word[0, n] = word[1, n] = 0
                node = n
                n += 1
                at += 1
                state = _OPENED
            elif mark == _CLOSE:
                node = int(parent[node])
                at += 1
                state = _AFTER if node == first else _PARENT
            else:
                piece = word if state == _LABELLED else label
                piece[0, node] = at
                while at < text.size and _MARKS[text[at]] == _LETTER:
                    at += 1
                piece[1, node] = at
                state += 1
        if state == _BEFORE:  # a blank line
            n = first
            odd = control(text, begin)
            if odd >= 0:
                return seen, n, odd, _CONTROL
        elif state != _AFTER:
            return seen, n, at, _UNCLOSED
        else:
            kind[first] = _INSTANCE
            parent[first] = right[first] = parent[first + 1] = -1
            label[0, first] = label[1, first] = word[0, first] = word[1, first] = 0
            n = kept(rows, seen - skip, first, line, n)
            seen += 1
        at += 1
        line += 1
    return seen, n, at, 0
