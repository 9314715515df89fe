"""The tool worker: executes tools of its toolsets when a ticket of the tool-access service says so, never otherwise.

It decides nothing, keeps no state beyond what it is doing, and has no access to Postgres.
"""
