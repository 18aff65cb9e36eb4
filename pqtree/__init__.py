"""PQ-trees and the memory-layout problem; knows nothing of neural networks."""

from abw.pqtree.check import InvariantError, check_tree
from abw.pqtree.conflict import Conflict, find_conflict
from abw.pqtree.draw import tree_svg
from abw.pqtree.layout import Layout, OperandLayout, Status, declared_layout
from abw.pqtree.paper import paper_layout
from abw.pqtree.planner import plan_layout
from abw.pqtree.tree import PQTree
from abw.pqtree.verify import LayoutError, verify_layout

__all__ = [
    "Conflict",
    "InvariantError",
    "Layout",
    "LayoutError",
    "OperandLayout",
    "PQTree",
    "Status",
    "check_tree",
    "declared_layout",
    "find_conflict",
    "paper_layout",
    "plan_layout",
    "tree_svg",
    "verify_layout",
]
