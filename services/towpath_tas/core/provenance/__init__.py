"""Where the values of a call come from."""
