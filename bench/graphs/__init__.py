"""Graphs, policies and layouts: batches, copies, and nanoseconds a node."""
