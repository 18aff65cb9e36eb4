"""Searches over sequences of types, by automata of the instances."""
