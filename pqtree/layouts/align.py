"""Alignment: the lane orders that operands agree on, and an order of the variables that has them."""

from __future__ import annotations

from collections.abc import Sequence

from abw.pqtree import shape
from abw.pqtree.layouts import ties
from abw.pqtree.table import HALF
from abw.pqtree.tree import PQTree


class Alignment:
    """Ties between the nodes of a closed tree; `begin` again where it has changed."""

    def __init__(self, tree: PQTree) -> None:
        """Allocate their arrays."""
        self.tree = tree
        self.room = tree.room
        self.arrays = tree.rows_of(
            [
                *(range(tree.room + ties.BACKWARD) for _ in range(ties.CODE)),
                *(range(tree.room // HALF + 2) for _ in range(ties.CODE, ties.SIZE + 1)),
            ]
        )
        self._kernel = tree.kernel_of(ties)

    def begin(self) -> None:
        """Forget all ties, for the tree as it is."""
        self.tree.run(self._kernel.untie, self.arrays)

    def tie(self, a: Sequence[int], b: Sequence[int]) -> bool:
        """Order the nodes below two operands alike, lane by lane. False if their shapes differ."""
        row = self.tree.row([*a, *b])
        return bool(self.tree.run(self._kernel.tie, self.arrays, row, 0, len(a), len(a)))

    def consistent(self) -> bool:
        """Whether all ties can hold at once."""
        return bool(self.tree.run(self._kernel.consistent, self.arrays))

    def order(self) -> list[int]:
        """An order of the leaves that holds all ties. Only for consistent ones.

        Children of P-nodes that nothing ties stand in the order of their least leaves, as declared.
        """
        code, nodes, tied, above = (
            list(map(int, self.arrays[i])) for i in (ties.CODE, ties.NODES, ties.TIED, ties.ABOVE)
        )
        code = code[: self.arrays[ties.SIZE][0]]
        children = shape.children_of(code)
        least = list(code)
        for at, below in children.items():  # each after its children
            least[at] = min([least[child] for child in below])
        rank: dict[int, int] = {}  # of classes of elements: whichever comes first

        def ranked(element: int) -> int:
            return rank.setdefault(ties.find(above, element), len(rank))

        for at in sorted(children):
            ordered = shape.is_q(code[at]) or len(children[at]) == 2
            if not tied[nodes[at]]:
                if not shape.is_q(code[at]):
                    children[at].sort(key=least.__getitem__)
            elif not ordered:
                children[at].sort(key=lambda child: ranked(nodes[child]))
            elif ranked(nodes[at] + ties.FORWARD) > ranked(nodes[at] + ties.BACKWARD):
                children[at].reverse()
        return [code[at] for at in shape.walk(children) if code[at] >= 0] if code else []
