"""What a sandbox is made of: its mounts, what is hidden in them, and its filter of system calls."""
