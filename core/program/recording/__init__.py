"""What programs write: cells as they are called, values, questions; in Python and in machine code."""
