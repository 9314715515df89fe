"""Turns of callers and projects: at queues, at requests, and at what computes for long; and how tasks end."""
