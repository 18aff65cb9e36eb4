"""Models as data: cells, types, schemas, weights, networks. Knows no YAML and no instance."""
