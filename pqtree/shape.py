"""The shape of a PQ-tree apart from the tree: a flat prefix code, and all that can be read off it.

A code lists a tree's nodes, each before its children: a leaf as its number, a P-node with k children as -2k,
a Q-node as -2k - 1. The empty code is the tree without leaves. Codes may be as deep as they like: nothing
here recurses.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from math import factorial

Code = tuple[int, ...]


def p_node(children: int) -> int:
    """The token of a P-node."""
    return -2 * children


def q_node(children: int) -> int:
    """The token of a Q-node; two children can only be swapped, whatever holds them."""
    return -2 * children - 1 if children > 2 else -2 * children


def is_q(token: int) -> bool:
    """Whether the token is a Q-node's."""
    return token < 0 and token % 2 == 1


def children_of(code: Sequence[int]) -> dict[int, list[int]]:
    """For the place of each inner node, from the last to the first, the places of its children in order."""
    children: dict[int, list[int]] = {}
    open_: list[int] = []
    for at in range(len(code) - 1, -1, -1):
        if code[at] < 0:
            count = -code[at] // 2
            children[at] = open_[: -count - 1 : -1]
            del open_[-count:]
        open_.append(at)
    return children


def arrange(code: Sequence[int]) -> dict[int, list[int]]:
    """`children_of`, in canonical order: of P-nodes by their least leaf, of Q-nodes the lesser end first."""
    by_place = children_of(code)
    least = list(code)
    for at, children in by_place.items():
        if code[at] % 2 == 0:
            children.sort(key=least.__getitem__)
        elif least[children[0]] > least[children[-1]]:
            children.reverse()
        least[at] = min([least[child] for child in children])
    return by_place


def walk(children: dict[int, list[int]], root: int = 0) -> Iterator[int]:
    """The places of a subtree, each before its children."""
    stack = [root]
    while stack:
        at = stack.pop()
        yield at
        if at in children:
            stack.extend(reversed(children[at]))


def canonical(code: Sequence[int]) -> Code:
    """A code that is the same for all codes of one set of orders."""
    return tuple([code[at] for at in walk(arrange(code))]) if code else ()


def count(code: Sequence[int]) -> int:
    """The number of orders, exactly. No order at all of no leaves counts as one."""
    orders = 1
    for token in code:
        if token < 0:
            orders *= 2 if is_q(token) else factorial(-token // 2)
    return orders


def rows(code: Sequence[int]) -> list[list[int]]:
    """Sets of leaves that generate the tree: those of P-nodes below the root, and of neighbours in Q-nodes.

    Of sizes that may add up to the square of the number of leaves.
    """
    children = children_of(code)
    below: dict[int, list[int]] = {}
    made = []
    for at in range(len(code) - 1, -1, -1):
        if code[at] >= 0:
            below[at] = [code[at]]
            continue
        parts = [below.pop(child) for child in children[at]]
        if is_q(code[at]):
            made += [a + b for a, b in itertools.pairwise(parts)]
        below[at] = [leaf for part in parts for leaf in part]
        if not is_q(code[at]) and at > 0:
            made.append(below[at])
    return made


def prune(code: Sequence[int], keep: Iterable[int]) -> Code:
    """The tree of the orders of the leaves `keep` alone; leaf keep[i] becomes i. Raises KeyError."""
    names = {leaf: i for i, leaf in enumerate(keep)}
    missing = names.keys() - set(code)
    if missing:
        raise KeyError(min(missing))
    open_: list[list[int]] = []  # the pruned subtrees, their tokens from the last to the first
    for token in reversed(code):
        if token >= 0:
            open_.append([names[token]] if token in names else [])
            continue
        parts = [part for part in (open_.pop() for _ in range(-token // 2)) if part]
        if len(parts) > 1:
            joined = [leaf for part in reversed(parts) for leaf in part]
            joined.append(q_node(len(parts)) if is_q(token) else p_node(len(parts)))
            parts = [joined]
        open_.append(parts[0] if parts else [])
    return tuple(reversed(open_[0])) if open_ else ()


def to_text(code: Sequence[int]) -> str:
    """A P-node in round, a Q-node in square brackets: `(0 1 [2 3 4])`."""
    out: list[str] = []
    left: list[int] = []  # of each open bracket, the children still to come
    closing: list[str] = []
    for token in code:
        if out and out[-1] not in "([":
            out.append(" ")
        if token < 0:
            left.append(-token // 2)
            closing.append("]" if is_q(token) else ")")
            out.append("[" if is_q(token) else "(")
            continue
        out.append(str(token))
        while left:
            left[-1] -= 1
            if left[-1]:
                break
            left.pop()
            out.append(closing.pop())
    return "".join(out)


def from_text(text: str) -> Code:
    """Read `to_text`'s form. Raises ValueError."""
    closing: list[tuple[str, list[int]]] = [
        ("", [])
    ]  # the closing bracket awaited, tokens, and [0] the children
    counts = [0]
    for word in text.replace("(", " ( ").replace(")", " ) ").replace("[", " [ ").replace("]", " ] ").split():
        if word in "([":
            closing.append((")" if word == "(" else "]", []))
            counts.append(0)
            continue
        if word in ")]":
            bracket, tokens = closing.pop()
            size = counts.pop()
            if bracket != word:
                raise ValueError(f"'{word}' closes nothing in '{text}'")
            if size < (2 if word == ")" else 3):
                raise ValueError(f"a {'P' if word == ')' else 'Q'}-node of {size} children in '{text}'")
            tokens.insert(0, p_node(size) if word == ")" else q_node(size))
        elif word.isdigit():
            tokens = [int(word)]
        else:
            raise ValueError(f"'{word}' is neither a leaf nor a bracket")
        closing[-1][1].extend(tokens)
        counts[-1] += 1
    if len(closing) > 1 or counts[0] > 1:
        raise ValueError(f"not one tree: '{text}'")
    leaves = [token for token in closing[0][1] if token >= 0]
    if sorted(leaves) != list(range(len(leaves))):
        raise ValueError(f"the leaves must be 0 to {len(leaves) - 1}, each once")
    return tuple(closing[0][1])
