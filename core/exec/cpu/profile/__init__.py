"""Where the time of the executor `cpu` goes."""
