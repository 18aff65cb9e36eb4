"""Rounds of growing models compiled: nodes, kernels, decisions and new vertices without Python between."""
