"""Pure rules of the orchestrator: checks of tasks, inbox parsing, window sizes. No I/O, no clock."""
