"""Instances that benches make: query plans, syntax trees, molecules."""
