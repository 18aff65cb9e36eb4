"""Growth: whose the new nodes are, what comes to be, and what is decided."""
