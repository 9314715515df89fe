"""What both ways to a platform can do.

Every method may be called again after a lost connection without doing anything twice.
"""

from collections.abc import AsyncGenerator
from typing import Any, Protocol
from uuid import UUID

from towpath.client.retry_policy import RetryNotice
from towpath_contracts.base import JsonObject
from towpath_contracts.events.log import LogEntry
from towpath_contracts.runs.run_control import RunSteered, SteeringAct
from towpath_contracts.runs.views import ActionDone, RunView
from towpath_contracts.tasks import RunAccepted, SubmitTask
from towpath_readings.stream.deltas import DeltaEvent


class Transport(Protocol):
    """A way to a platform. Refusals are TowpathError."""

    address: str
    retry_notice: RetryNotice | None
    """Is told that something is tried again, once that has taken a while."""
    retries: bool
    """Whether what has one answer is tried again while nothing answers."""

    async def submit(self, task: SubmitTask, wait_s: float) -> RunAccepted | RunView:
        """Submit *task*, whose idempotency key is set; the run itself when it ended within *wait_s*."""

    async def get(self, run_id: UUID) -> RunView:
        """Return one run."""

    async def ended(self, run_id: UUID) -> RunView:
        """Return the run once it has ended, or as it stands after a while."""

    def events(self, run_id: UUID, after: int) -> AsyncGenerator[LogEntry]:
        """Yield every event after seq *after* once, in order, until the run has ended."""

    def follow(
        self, run_id: UUID, *, children: bool = False, deltas: bool = False
    ) -> AsyncGenerator[LogEntry | DeltaEvent]:
        """Yield every event of a run once, in order, until it has ended; with *children* TreeEntry of all below too.

        With *deltas* also pieces of what models write, as they come.
        """

    async def cancel(self, run_id: UUID, reason: str) -> ActionDone:
        """Ask a run to stop."""

    async def steer(self, run_id: UUID, act: SteeringAct, text: str) -> RunSteered:
        """Steer a run; *text* is the note, or why. The one act that is sent once: after silence nobody knows."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: JsonObject | None = None,
        query: dict[str, Any] | None = None,
        wait_s: float = 0.0,
    ) -> Any:
        """Do any HTTP operation, which may wait for a run for *wait_s*; a transport without HTTP refuses."""

    async def close(self) -> None:
        """Close the connection; safe to call twice."""
