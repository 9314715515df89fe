"""The history tables."""
