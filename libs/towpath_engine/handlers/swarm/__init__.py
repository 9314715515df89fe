"""Handlers of swarms: handoff to another agent, delegation to a child run."""
