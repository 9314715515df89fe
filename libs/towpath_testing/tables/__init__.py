"""Tables of the services in memory: what their statements do, by the names of the statements."""
