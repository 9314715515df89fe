"""The process of an agent in user code: answers the requests of its own pool through a `BaseAgent`, and nothing else.

It decides nothing beyond its answers, keeps no state of a run, and has no access to Postgres.
"""
