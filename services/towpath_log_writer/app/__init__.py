"""Handlers of the log-writer: stream readers, the history writer, repair, queries."""
