"""The commands of `abw bench`: arguments, calls and printing; what they call is `abw.bench`."""
