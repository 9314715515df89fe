"""Handlers of tool calls: order, outcomes, internal tools, the stop switch."""
