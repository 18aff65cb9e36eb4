"""Products of the executor `cpu` with weights of less than 32 bits."""
