"""Sections of a data file, for processes that each run one: where instances begin."""
