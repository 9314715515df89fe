"""The HTTP application: routes, refusals, event streams."""
