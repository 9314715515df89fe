"""The log-writer: makes readable execution history from the events of runs and the logs of model calls and tools.

It decides nothing and holds up nobody: a run never waits for its history. What the streams lost it fetches from the run
log.
"""
