"""The sections of a model file: types and their inputs, tables, weights."""
