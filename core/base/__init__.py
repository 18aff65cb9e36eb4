"""What everything stands on: errors, files, progress, memory. Knows no model."""
