"""Records what programs do: calls of cells and questions to values, in Python and in machine code."""
