"""Handlers of background runs: iterations, reflection, the end."""
