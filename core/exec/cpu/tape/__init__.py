"""What programs record, executed as it is appended: read, scheduled and run by one compiled call."""
