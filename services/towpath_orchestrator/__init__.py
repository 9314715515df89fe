"""The orchestrator: owns the run log, run state, timers, gates and the network registry.

It folds facts into runs with the engine and commits them in batches; it never calls a model or a tool.
"""
