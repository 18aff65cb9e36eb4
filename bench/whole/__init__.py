"""Whole runs, from a file to outputs: time by part, memory, beside other systems."""
