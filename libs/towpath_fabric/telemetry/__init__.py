"""Spans and structured logs."""
