"""PQ-trees and the memory-layout problem; knows nothing of neural networks."""

from abw.pqtree.draw import tree_svg
from abw.pqtree.layouts.layout import Layout, OperandLayout, Status, declared_layout
from abw.pqtree.layouts.paper import paper_layout
from abw.pqtree.layouts.planner import plan_layout
from abw.pqtree.tree import PQTree

__all__ = [
    "Layout",
    "OperandLayout",
    "PQTree",
    "Status",
    "declared_layout",
    "paper_layout",
    "plan_layout",
    "tree_svg",
]
