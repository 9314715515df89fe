"""Handlers around the permission matrix: versions, questions, differences, the tool registry."""
