"""Tools for numba to compile loops over arrays fast, to keep them, and to reach memory by its address."""
