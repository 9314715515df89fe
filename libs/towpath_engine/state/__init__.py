"""The state of a run, as immutable values."""
