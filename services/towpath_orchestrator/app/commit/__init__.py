"""From facts to committed transitions, and their announcement."""
