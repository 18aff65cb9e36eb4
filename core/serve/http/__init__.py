"""HTTP: connections of clients, and the handlers of addresses."""
