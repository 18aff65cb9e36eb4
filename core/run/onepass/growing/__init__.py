"""The stages of models that grow: room for vertices, rounds, what has grown."""
