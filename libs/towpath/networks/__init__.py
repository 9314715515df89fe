"""Networks written in Python or read from YAML: agents, flows, swarms."""
