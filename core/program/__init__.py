"""Models as plain Python functions: written for one instance, run for many."""
