"""Policies that follow a rule, one module each, and what they share."""
