"""Equal nodes: found in whole graphs, found as nodes are appended, and kept from earlier mini-batches."""
