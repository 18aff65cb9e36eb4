"""Instances recorded as calls of cells."""
