"""HTTP: connections of clients, and what stands at each address."""
