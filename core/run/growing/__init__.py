"""Mini-batches that grow: round after round, and checked by making their decisions again."""
