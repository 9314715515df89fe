"""Agents in user code: `BaseAgent`, what it is asked, what it may answer, and how its process serves it."""
