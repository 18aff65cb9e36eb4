"""The command line: arguments, calls and printing, nothing else."""
