"""Programs from the command line: a Python file's function, run on a file of instances."""
