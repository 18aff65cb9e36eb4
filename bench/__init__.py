"""Benchmarks: what is measured, and how; the commands that print it are in `abw.cli.bench`."""
