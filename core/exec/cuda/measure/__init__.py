"""What a GPU can do, and what a plan needs of it."""
