"""Handlers of tool calls: requests, claims, outcomes, approvals, dispatch."""
