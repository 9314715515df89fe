"""Events about what goes wrong without failing: loops, and what the watchdog reports."""

from typing import Literal

from towpath_contracts.base import MessagePart
from towpath_contracts.runs.idle_runs import FindingName


class LoopDetected(MessagePart):
    """A loop detector fired: `detector` is its name in the table of docs/runs.md.

    `count` is what it counted (of a cycle its length), `action` the rung of the ladder that was taken: nudge, replan,
    gate or stop.
    """

    type: Literal["loop_detected"] = "loop_detected"
    detector: str
    signature: str
    count: int
    action: str


class WatchdogReported(MessagePart):
    """The watchdog's report was taken: what it found, over how many steps, how clearly (0 to 1).

    `action` is what it leads to: `nudge` or `gate` at the next step, `resend` of what is overdue, or `note` alone.
    """

    type: Literal["watchdog_reported"] = "watchdog_reported"
    finding: FindingName
    key: str
    step: int
    steps: int = 0
    score: float = 0.0
    detail: str = ""
    tools: tuple[str, ...] = ()
    action: str
