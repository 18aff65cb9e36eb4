"""Instances that a caller gives: Python objects, graphs of other libraries, those made for another model."""
