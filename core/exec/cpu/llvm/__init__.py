"""The kernels of the executor `cpu` as LLVM IR."""
