"""The permission matrix: reading, checking, editing and evaluating it."""
