"""Handlers and loops of the orchestrator: parse, load, ask the engine or the core, store, publish."""
