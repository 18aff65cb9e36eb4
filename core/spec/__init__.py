"""YAML to checked, typed models and cells."""
