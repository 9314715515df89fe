"""A2A 1.0: published networks as agents for other agents, over JSON-RPC; nothing has to be installed."""
