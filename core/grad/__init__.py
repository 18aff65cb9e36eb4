"""Training: derivatives of cells, and the graphs of mini-batches with their backward pass."""
