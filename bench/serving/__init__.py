"""`abw bench serve`: a server under load, batched, one at a time, and around PyTorch."""
