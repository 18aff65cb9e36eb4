"""Executors: what runs a plan."""
