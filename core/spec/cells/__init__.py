"""Cell files to checked cells."""
