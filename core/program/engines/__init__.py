"""Executes recorded calls of cells, a piece at a time."""
