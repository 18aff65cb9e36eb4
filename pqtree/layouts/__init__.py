"""The memory-layout problem, and its solution by PQ-trees."""
