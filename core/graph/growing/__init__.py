"""Growth: which vertices rounds create, and by which decisions."""
