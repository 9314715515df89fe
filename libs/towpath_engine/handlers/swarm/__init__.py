"""Swarms: handing a run over to another agent, and delegating a call to a child run."""
