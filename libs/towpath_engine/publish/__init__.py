"""Compiling a network into the snapshot that runs use."""
