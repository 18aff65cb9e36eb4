"""The kernels of the executor `cpu` as plain Python for numba."""
