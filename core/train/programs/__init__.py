"""Trains programs: gradients of what they record, and a trainer of nets."""
