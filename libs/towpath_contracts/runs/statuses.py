"""The statuses of a run: those it can still leave, those of them in which it stands, and those that are its end."""

from typing import Literal

RunStatus = Literal[
    "queued",
    "running",
    "waiting",
    "cancelling",
    "quarantined",
    "completed",
    "failed",
    "escalated",
    "abandoned",
    "cancelled",
    "timed_out",
]
"""Each of them, as people name it who look for runs."""

FINAL_STATUSES = frozenset({"completed", "failed", "escalated", "abandoned", "cancelled", "timed_out"})
LIVE_STATUSES = frozenset({"queued", "running", "waiting", "cancelling", "quarantined"})
STANDING_STATUSES = frozenset({"waiting", "quarantined"})
"""In which something of a run, or below it, may wait for a person."""
