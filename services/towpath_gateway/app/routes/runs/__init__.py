"""The HTTP operations on runs: submit and follow them, steer them, go on with them, read them in other words."""
