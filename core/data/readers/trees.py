"""Bracketed trees: one on each line, `(label child child)`, leaves `(label word)`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from abw.core.base.jit import njit
from abw.core.data.feed import Bytes, Fault, Feed, Source
from abw.core.data.instances import Instances, Ints, Link
from abw.core.data.intern import intern
from abw.core.data.links import Lazy, inverse, single
from abw.core.ir.formats import SCHEMAS

_UNCLOSED, _CLOSED_TWICE, _NO_TREE, _AFTER, _NO_LABEL, _NO_WORD, _MIXED = range(1, 8)
_FAULTS = {
    _UNCLOSED: ("the line ends inside a tree", "a ')' is missing: a tree stands on one line"),
    _CLOSED_TWICE: ("a ')' without its '('", "a line holds one tree, closed once"),
    _NO_TREE: (
        "text where a tree should begin",
        "a tree begins with '(' and its label: (3 (2 It) (4 works))",
    ),
    _AFTER: ("text after the tree", "a line holds one tree"),
    _NO_LABEL: ("a node without a label", "write the label behind the '(': (NP (DT the) (NN dog))"),
    _NO_WORD: ("a leaf without a word", "a leaf is a label and a word: (2 It)"),
    _MIXED: ("a word beside another word or a node", "a node has nodes, or one word: (NP (DT the) (NN dog))"),
}
_INSTANCE, _INTERNAL, _LEAF = map(SCHEMAS["trees"].kinds.index, ("instance", "internal", "leaf"))
_LETTER, _BLANK, _OPEN, _CLOSE = range(4)
_MARKS = np.full(256, _LETTER, np.uint8)
_MARKS[:33] = _BLANK
_MARKS[ord("(")] = _OPEN
_MARKS[ord(")")] = _CLOSE


def read_trees(feed: Feed, skip: int, limit: int) -> Instances:
    """Trees `skip` to `skip + limit` of what is left of a file; the nodes of each come in preorder.

    Errors: DataError. Cost: about 80 ns a node.
    """
    stop = skip + limit
    for source in feed.windows(stop):
        most = len(source.data) // 2 + 2  # a node takes two bytes or more, and a tree's line two more
        nodes, label, word, rows = (np.empty((2, most), np.int32) for _ in range(4))
        kind = np.empty(most, np.uint8)
        into = kind, nodes, label, word, rows
        seen, count, end, code = parse_trees(source.text, source.begin, skip, stop, *into)
        if code or source.enough(seen, stop, skip):
            break

    def faults(at: int, code: int) -> Iterator[Fault]:
        while code:
            yield Fault(at, *_FAULTS[code])
            _, _, at, code = parse_trees(source.text, source.line_end(at), 0, most, *into)

    if code:
        source.refuse(faults(end, code))
    source.check(end)
    lines = rows[1, : max(seen - skip, 0)] + np.int32(source.line - 1)
    numbers = feed.numbers(lines, skip)
    feed.take(source, end, seen)
    return _instances(source, numbers, lines, count, kind[:count], nodes, label, word, rows[0])


def _instances(
    source: Source,
    numbers: NDArray[np.int64],
    lines: Ints,
    count: int,
    kind: NDArray[np.uint8],
    nodes: Ints,
    label: Ints,
    word: Ints,
    firsts: Ints,
) -> Instances:
    schema = SCHEMAS["trees"]
    parent, right = nodes[0, :count], nodes[1, :count]
    start = np.empty(len(lines) + 1, np.int64)
    start[:-1], start[-1] = firsts[: len(lines)], count
    roots = start[:-1]

    def first_child() -> Link:
        here = np.arange(1, count + 1, dtype=np.int32)
        return Link(np.where(right >= 0, here, np.int32(-1)))

    labels = Lazy({"label": lambda: intern(source.data, source.text, *label[:, :count])})
    words, word_words = intern(source.data, source.text, *word[:, :count])
    return Instances(
        schema,
        kind,
        start,
        Lazy(
            {
                "left": first_child,
                "right": lambda: Link(right),
                "children": lambda: inverse(parent),
                "parent": lambda: Link(parent),
                "root": lambda: single(roots, roots + 1, count),
            }
        ),
        Lazy({"label": lambda: labels["label"][0], "word": lambda: words}),
        Lazy({"label": lambda: labels["label"][1], "word": lambda: word_words}),
        source.path,
        lines,
        numbers,
    )


@njit
def parse_trees(
    text: Bytes,
    at: int,
    skip: int,
    stop: int,
    kind: NDArray[np.uint8],
    nodes: Ints,
    label: Ints,
    word: Ints,
    rows: Ints,
) -> tuple[int, int, int, int]:
    """Parse trees from the offset `at` until `stop` of them are seen.

    Fills, for each vertex, its kind, its parent and last child (`nodes`; -1: none) and the offsets of its
    label and word, and for each tree behind the first `skip` its first vertex and its line (`rows`). Returns
    the trees seen, the vertices, the offset behind them, and 0 or the fault found at that offset. Any byte up
    to 32 is a blank.
    """
    parent, right = nodes[0], nodes[1]
    n = seen = 0
    line = 1
    while at < text.size and seen < stop:
        first = n
        node = -1  # the node whose bracket is open
        n += 1  # the instance's own vertex
        while at < text.size and text[at] != 10:
            mark = _MARKS[text[at]]
            if mark == _BLANK:
                at += 1
            elif mark == _OPEN:
                if node < 0 and n > first + 1:
                    return seen, n, at, _AFTER
                if node >= 0:
                    if label[0, node] < 0:
                        return seen, n, at, _NO_LABEL
                    if word[0, node] >= 0:
                        return seen, n, at, _MIXED
                    right[node] = n
                    kind[node] = _INTERNAL
                kind[n] = _LEAF
                label[0, n] = word[0, n] = word[1, n] = right[n] = -1
                parent[n] = node
                node = n
                n += 1
                at += 1
            elif mark == _CLOSE:
                if node < 0:
                    return seen, n, at, _CLOSED_TWICE
                if label[0, node] < 0:
                    return seen, n, at, _NO_LABEL
                if right[node] < 0 and word[0, node] < 0:
                    return seen, n, at, _NO_WORD
                node = parent[node]
                at += 1
            else:
                begin = at
                while at < text.size and _MARKS[text[at]] == _LETTER:
                    at += 1
                if node < 0:
                    return seen, n, begin, _AFTER if n > first + 1 else _NO_TREE
                if label[0, node] < 0:
                    label[0, node] = begin
                    label[1, node] = at
                elif right[node] >= 0 or word[0, node] >= 0:
                    return seen, n, begin, _MIXED
                else:
                    word[0, node] = begin
                    word[1, node] = at
        if node >= 0:
            return seen, n, at, _UNCLOSED
        if n == first + 1:  # a blank line
            n = first
        else:
            kind[first] = _INSTANCE
            parent[first] = right[first] = -1
            label[0, first] = label[1, first] = word[0, first] = word[1, first] = -1
            if seen < skip:
                n = 0
            else:
                rows[0, seen - skip] = first
                rows[1, seen - skip] = line
            seen += 1
        at += 1
        line += 1
    return seen, n, at, 0
