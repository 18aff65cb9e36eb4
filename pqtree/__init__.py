"""PQ-trees and the memory-layout problem; knows nothing of neural networks."""

from abw.pqtree.check import InvariantError, check_tree
from abw.pqtree.conflict import Conflict
from abw.pqtree.draw import tree_svg
from abw.pqtree.layouts.layout import Layout, OperandLayout, Status, declared_layout
from abw.pqtree.layouts.paper import paper_layout
from abw.pqtree.layouts.planner import plan_layout
from abw.pqtree.layouts.verify import LayoutError, verify_layout
from abw.pqtree.tree import PQTree, find_conflict

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
