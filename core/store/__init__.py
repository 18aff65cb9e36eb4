"""Runs and policies on disk."""
