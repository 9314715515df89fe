"""Handlers: what a fact changes in a run, by topic. They change a run only by emitting events."""
