"""What others request of the orchestrator, and the commands that run without it."""
