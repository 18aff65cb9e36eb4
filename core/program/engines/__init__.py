"""What executes what was recorded, a piece at a time; and the meaning, in double precision."""
