"""Pure parts of the watchdog: what it remembers of a run, how alike two actions are, and what it finds."""
