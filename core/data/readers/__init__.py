"""The data formats, one module each."""
