"""The keys of model and cell files: tables that reading, the JSON Schema and the reference page follow.

A table knows the form of values. Names, links and shapes are checked by `abw.core.spec.load` alone.
"""
