"""Handlers of the decider: requests in, facts out, limits of providers, token streams."""
