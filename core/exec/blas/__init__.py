"""The executor `blas`: NumPy and BLAS calls, one for each batch of operations."""
