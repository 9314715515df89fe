"""How a process begins, or ends where it can't."""
