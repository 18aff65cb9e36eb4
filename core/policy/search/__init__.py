"""Searches over sequences of types, on automata of the instances."""
