"""Code that is the same in all kernels and runs on the GPU."""
