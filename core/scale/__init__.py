"""Runs over many processes and machines, by an engine that others have made."""
