"""The dataflow graph: its arrays, its construction, its bounds."""
