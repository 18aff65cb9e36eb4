"""Schedule and memory to a plan."""
