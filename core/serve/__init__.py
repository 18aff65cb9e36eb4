"""`abw serve`: a model behind HTTP, its engine in a process of its own."""
