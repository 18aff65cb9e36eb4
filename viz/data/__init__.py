"""Pictures as data: what each of them shows."""
