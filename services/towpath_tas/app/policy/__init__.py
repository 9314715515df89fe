"""Handlers of the permission matrix and the tool registry: versions, queries, comparison, registration."""
