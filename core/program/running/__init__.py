"""Running programs: fibers, mini-batches of them, their results, and their verification."""
