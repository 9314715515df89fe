"""Handlers of goal runs: validation, progress, retry, confidence, denials."""
