"""The shipped gallery in PyTorch, batched by hand; imports PyTorch, so import it only where that is there."""
