"""Pure parts of the decider: prompts, reading answers, scripts, and the order of attempts."""
