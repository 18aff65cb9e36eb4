"""Functions of models rewritten so that stretches of tensor operations become cells."""
