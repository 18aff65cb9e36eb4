"""Training: losses, optimisers, metrics, and the loop over epochs."""
