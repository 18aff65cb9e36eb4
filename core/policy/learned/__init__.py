"""The finite state machine: states, learning, running."""
