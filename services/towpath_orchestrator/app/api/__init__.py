"""What others ask of the orchestrator, by request and reply."""
