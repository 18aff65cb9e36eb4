"""The text of the generated CUDA kernels."""
