"""YAML as text with places: documents, values of keys, expressions."""
