"""Rules that read the state and answer one question. They make no events."""
