"""Tells of a server that is away: once with the reason, again when the reason is another one, and once when it is over.

Whoever fails says so at each try, and there are several such loops in a process: a line for each would bury the others.
"""

import asyncio
from datetime import datetime

from prometheus_client import CollectorRegistry, Gauge

from towpath_fabric.clock import monotonic, wall
from towpath_fabric.telemetry.logs import get_logger

QUIET_S = 2.0
"""Without a failure for so long after a success an outage is over: some connections may be left while no new one is
possible."""

MAX_REASONS = 20
"""Reasons told in one outage; addresses and numbers in them may differ for ever."""


class Outage:
    """One server as a process sees it; `failed` and `worked` are called as often as anything fails and works."""

    def __init__(
        self, role: str, server: str, remedy: str, *, quiet_s: float = QUIET_S, patience_s: float = 0.0
    ) -> None:
        """Tell of *server*; one that is back within *patience_s* was perhaps only started, and is not told of."""
        self._role = role
        self._server = server
        self._remedy = remedy
        self._quiet_s = quiet_s
        self._patience_s = patience_s
        self.is_on = False
        """Whether the last that was noted of the server is a failure."""
        self._since: datetime | None = None
        self._since_s = 0.0
        self._reasons: set[str] = set()
        self._success_s: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def failed(self, error: BaseException, **about: str) -> None:
        """Note that *error* was met; *about* is told besides."""
        self._forget_success()
        reason = reason_of(error)
        if self._since is None:
            self.is_on, self._since, self._since_s = True, wall(), monotonic()
        if reason in self._reasons or len(self._reasons) >= MAX_REASONS:
            return
        if monotonic() - self._since_s < self._patience_s:
            return
        event = f"{self._server} is away" if not self._reasons else f"{self._server} is still away, for another reason"
        self._reasons.add(reason)
        told = {"reason": reason, "since": self._since.isoformat(), "remedy": self._remedy, **about}
        get_logger(self._role).warning(event, role=self._role, **told)

    def worked(self) -> None:
        """Note that the server did what it was asked for."""
        if self._since is None or self._success_s is not None:
            return
        self._success_s = monotonic()
        if self._quiet_s:
            self._timer = asyncio.get_running_loop().call_later(self._quiet_s, self._end)
        else:
            self._end()

    def _end(self) -> None:
        assert self._since is not None and self._success_s is not None
        if self._reasons:
            away_s = round(self._success_s - self._since_s, 1)
            get_logger(self._role).warning(
                f"{self._server} is back", role=self._role, away_since=self._since.isoformat(), came_back_after_s=away_s
            )
        self.is_on, self._since = False, None
        self._reasons.clear()
        self._forget_success()

    def _forget_success(self) -> None:
        self._success_s = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class ServerGauge:
    """Tells of the servers of one process, each by what failed and worked last."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._up = Gauge(
            "towpath_server_up", "Whether the server does what this process asks", ("server",), registry=registry
        )

    def watch(self, server: str, outage: Outage) -> None:
        """Tell of *server*, by a name that says what it is, from now on."""
        self._up.labels(server).set_function(lambda: float(not outage.is_on))


def reason_of(error: BaseException) -> str:
    """Return the first line of what *error* says, or what kind it is where it says nothing."""
    said = str(error).strip().splitlines()
    name = type(error).__name__
    return f"{name}: {said[0][:300]}" if said else name
