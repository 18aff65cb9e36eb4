"""PQ-trees and the memory-layout problem; knows nothing of neural networks."""

from abw.pqtree.check import InvariantError, check_tree
from abw.pqtree.conflict import Conflict, find_conflict
from abw.pqtree.draw import tree_svg
from abw.pqtree.tree import PQTree

__all__ = ["Conflict", "InvariantError", "PQTree", "check_tree", "find_conflict", "tree_svg"]
