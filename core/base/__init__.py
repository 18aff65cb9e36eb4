"""What everything stands on: errors, files, progress, memory, compiled functions. Knows no model."""
