"""Handlers: parse, load, ask the core, store, publish, acknowledge."""
