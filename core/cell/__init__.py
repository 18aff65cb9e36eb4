"""The cell as a program: batching of its operations and layout of its variables."""
