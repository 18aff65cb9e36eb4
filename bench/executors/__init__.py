"""Executors from a plan to outputs, beside the machine's peak and PyTorch."""
