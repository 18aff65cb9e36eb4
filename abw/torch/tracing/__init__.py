"""Code on tensors traced into cells."""
