"""What a process says of servers that are away."""
