"""Handlers: parse, load, call the core, store, publish, acknowledge."""
