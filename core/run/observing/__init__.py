"""What is measured, compared, checked and written during a run."""
