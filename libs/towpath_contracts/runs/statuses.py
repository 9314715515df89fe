"""The statuses of a run: those it can still leave, and those that are its end."""

FINAL_STATUSES = frozenset({"completed", "failed", "escalated", "abandoned", "cancelled", "timed_out"})
LIVE_STATUSES = frozenset({"queued", "running", "waiting", "cancelling", "quarantined"})
