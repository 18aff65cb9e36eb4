"""From a spec and its data to results."""
