"""Tests of agents in one process: the platform's own services over a database and a broker in memory.

`towpath.testing` is how it is imported. What decides is what decides on a platform: the orchestrator's commit loop
around the engine, the tool-access service around the matrix, the decider's prompts and checks, the worker's calls.
Only what they are given differs: tables, messages and a clock that are in memory.
"""
