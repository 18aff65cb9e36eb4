"""Growing models: what rounds cost beside their kernels, and PyTorch batched by hand."""
