"""Readers: instances from trees, lattices, tagged sentences, pairs and JSON lines."""
