"""Benchmarks, as commands of the installed package (`abw bench ...`)."""
