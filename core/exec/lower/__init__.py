"""What every compiled executor makes of a cell before it writes code."""
