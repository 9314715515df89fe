"""Checks a network and compiles it into the snapshot that runs use."""
