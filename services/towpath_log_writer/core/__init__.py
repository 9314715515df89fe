"""Pure parts of the log-writer: putting events in order, and projecting them into rows."""
