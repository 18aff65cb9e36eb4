"""Batching policies: which type the next batch is of."""
