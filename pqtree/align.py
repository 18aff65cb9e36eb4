"""Lane orders: how the nodes below the operands of one batch must be ordered alike.

Once a tree is closed under broadcast, the trees below two operands of a batch have one shape. Aligning them
says: order the children of these two P-nodes alike, or turn these two Q-nodes alike. One union-find over
"things that come together" decides whether that is possible: a child of a P-node, and each direction of a
Q-node, is an element, and alike elements are united. It is impossible if and only if two children of one
node, or its two directions, become one element. This replaces the unions with transforms of ED-Batch's
Algorithm 5, whose composition is right only for transforms that commute.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from abw.pqtree import shape
from abw.pqtree.tree import PQTree

FORWARD, BACKWARD = 1, 2  # added to a node's name: its directions. Names are multiples of 8


@dataclass(frozen=True, slots=True)
class View:
    """The tree below an operand: its canonical code with lanes as leaves, and the node at each place."""

    code: shape.Code
    nodes: tuple[int, ...]

    @staticmethod
    def of(tree: PQTree, operand: Sequence[int]) -> View:
        """Of variables that are consecutive in the tree. Raises ValueError if they are not."""
        code, nodes = tree.below(list(operand))
        lane = {variable: i for i, variable in enumerate(operand)}
        code = [lane[token] if token >= 0 else token for token in code]
        if len(code) > len(operand) + 1:
            places = list(shape.walk(shape.arrange(code)))
        elif shape.is_q(code[0]):  # one node, and leaves; these are most
            places = list(range(len(code))) if code[1] < code[-1] else [0, *range(len(code) - 1, 0, -1)]
        else:
            places = sorted(range(len(code)), key=code.__getitem__)
        return View(tuple([code[at] for at in places]), tuple([nodes[at] for at in places]))


class Alignment:
    """Ties between nodes of a closed tree, which must not change meanwhile."""

    def __init__(self, tree: PQTree) -> None:
        """Without ties."""
        self._code, self._nodes = tree.places()
        self._position = {node: at for at, node in enumerate(self._nodes)}
        self._above: dict[int, int] = {}
        self._children = functools.cache(shape.children_of)
        self._groups: dict[int, list[int]] = {}  # of each tied node, the elements that must stay apart

    def tie(self, a: View, b: View) -> bool:
        """Order the nodes of b as those of a. False if their shapes differ."""
        if a.code != b.code:
            return False
        for at, children in self._children(a.code).items():
            self._unite_all(self._elements(a, at, children), self._elements(b, at, children))
        return True

    def consistent(self) -> bool:
        """Whether all ties can hold at once."""
        return all(
            len({self._find(element) for element in group}) == len(group) for group in self._groups.values()
        )

    def order(self) -> list[int]:
        """An order of the leaves that holds all ties. Only for consistent ones.

        Children of P-nodes that nothing ties stand in the order of their least leaves, as declared.
        """
        children = shape.children_of(self._code)
        least = list(self._code)
        for at, below in children.items():  # each after its children
            least[at] = min([least[child] for child in below])
        rank: dict[int, int] = {}  # of classes of elements: whichever comes first

        def ranked(element: int) -> int:
            return rank.setdefault(self._find(element), len(rank))

        for at in sorted(children):
            group = self._groups.get(self._nodes[at])
            if group is None:
                if not shape.is_q(self._code[at]):
                    children[at].sort(key=least.__getitem__)
                continue
            if len(group) > 2:
                children[at].sort(key=lambda child: ranked(self._nodes[child]))
            elif ranked(self._nodes[at] + FORWARD) > ranked(self._nodes[at] + BACKWARD):
                children[at].reverse()
        return [self._code[at] for at in shape.walk(children) if self._code[at] >= 0] if self._code else []

    def _elements(self, view: View, at: int, children: list[int]) -> list[int]:
        """What the node at a place of the view orders, in the view's order."""
        node, nodes = view.nodes[at], view.nodes
        if len(children) > 2 and not shape.is_q(view.code[at]):
            group = [nodes[child] for child in children]
        else:
            turned = self._position[nodes[children[0]]] > self._position[nodes[children[-1]]]
            group = [node + BACKWARD, node + FORWARD] if turned else [node + FORWARD, node + BACKWARD]
        self._groups.setdefault(node, group)
        return group

    def _unite_all(self, some: list[int], others: list[int]) -> None:
        for a, b in zip(some, others, strict=True):
            self._above[self._find(a)] = self._find(b)

    def _find(self, x: int) -> int:
        above = self._above
        root = x
        while (up := above.setdefault(root, root)) != root:
            root = up
        while above[x] != root:
            above[x], x = root, above[x]
        return root
