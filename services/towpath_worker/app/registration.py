"""Registers tools with TAS: at the start, after a reconnect, and when the worker's queue is missing.

A registration is a proposal; TAS decides what becomes of a tool. Its answer carries the keys that tickets are checked
with, so nothing runs before the first answer.
"""

import asyncio
import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING

from towpath.toolbox import WorkerTools
from towpath.tools.declaration import AnyTool
from towpath_contracts.base import Token
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.rpc import REGISTER_TOOLS
from towpath_contracts.subjects import for_toolset
from towpath_contracts.tools.workers import RegisterTools, ToolsRegistered
from towpath_fabric.clock import monotonic, wall
from towpath_fabric.telemetry.logs import Logger
from towpath_fabric.tickets import TicketVerifier

if TYPE_CHECKING:
    from towpath_fabric.nats.bus import Bus

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
KEYS_FRESH_S = 5.0
"""A ticket of an unknown key makes the keys be asked for again, but not more often than this."""

REFUSED = "refused"
_PLACE = re.compile(r"^/tools/(\d{1,4})/")

CLOCK_OFF_S = 60.0
"""A clock that differs by more is worth a warning; what people read from this worker then has odd times."""


class ToolsetRegistrar:
    """Registers the toolsets of one worker, also when its queue is missing, and keeps the ticket keys."""

    def __init__(
        self,
        bus: "Bus",
        toolbox: WorkerTools,
        *,
        worker: str,
        owner: str,
        project: Token,
        log: Logger,
    ) -> None:
        self._bus = bus
        self._log = log
        self._toolbox = toolbox
        self._identity = {"worker": worker, "owner": owner, "project": project}
        self._registered_s = float("-inf")
        self._lock = asyncio.Lock()
        self._known_standings: dict[str, str] = {}
        self.verifier = TicketVerifier({})
        self._platform_time: tuple[float, float] | None = None
        self.done = False
        """Whether TAS has answered at least once."""

    async def keep_trying(self) -> None:
        """Register, waiting for TAS as long as it takes.

        Raises ProblemError where waiting is of no use: the broker does not let this login ask, or TAS refuses.
        """
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                return await self.register()
            except ProblemError as error:
                if is_final(error):
                    raise
                self._log.warning("tools are not registered yet", code=error.problem.code, detail=error.problem.detail)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    async def register(self) -> None:
        """Offer every toolset once, and learn the keys; raises ProblemError. One at a time."""
        async with self._lock:
            self._registered_s = monotonic()
            for toolset, tools in self._toolbox.toolsets().items():
                answer = await self._propose(toolset, tools)
                self.verifier.learn(answer.ticket_keys)
                self._set_platform_time(answer)
                for one, standing in zip(_offerable(tools), answer.standings, strict=False):
                    one.standing = standing.status
                self._report(toolset, answer)
            self.done = True

    async def _propose(self, toolset: str, tools: tuple[AnyTool, ...]) -> ToolsRegistered:
        """Offer one toolset; a discovered tool that TAS can't take is left out, so that it doesn't bar the others."""
        while True:
            offered = _offerable(tools)
            proposal = RegisterTools(toolset=toolset, tools=tuple(one.spec for one in offered), **self._identity)
            try:
                subject = for_toolset(REGISTER_TOOLS.subject, proposal.project, toolset)
                answer = await self._bus.request_subject(
                    subject, proposal, ToolsRegistered, repeatable=REGISTER_TOOLS.repeatable
                )
            except ProblemError as error:
                bad = _refused_tools(error, offered)
                if not bad:
                    raise
                for one, detail in bad:
                    one.standing = REFUSED
                    self._log.warning("a discovered tool is refused", toolset=toolset, tool=one.name, detail=detail)
            else:
                return answer

    async def rebind(self) -> None:
        """Register because the queue is missing: TAS makes it again. Raises TimeoutError where TAS can't be asked."""
        try:
            await self.register()
        except ProblemError as error:
            msg = f"TAS did not take the registration: {error.problem.code}"
            raise TimeoutError(msg) from error

    async def learn_keys(self) -> bool:
        """Ask for the keys again, unless that was done just now; say whether it was worth trying again."""
        if monotonic() - self._registered_s < KEYS_FRESH_S:
            return False
        try:
            await self.register()
        except ProblemError:
            return False
        return True

    def now_s(self) -> float:
        """Return the platform's time in seconds since the epoch: TAS's last answer plus the time since then.

        Two machines' clocks are never compared: this one's is used only until TAS has answered.
        """
        if self._platform_time is None:
            return wall().timestamp()
        at_s, received_s = self._platform_time
        return at_s + monotonic() - received_s

    def _set_platform_time(self, answer: ToolsRegistered) -> None:
        if answer.now is None:
            return
        off_s = wall().timestamp() - answer.now.timestamp()
        if abs(off_s) > CLOCK_OFF_S and self._platform_time is None:
            self._log.warning("this machine's clock is off; the platform's is used", off_s=round(off_s))
        self._platform_time = answer.now.timestamp(), monotonic()

    def _report(self, toolset: str, answer: ToolsRegistered) -> None:
        """Log what changed since the last answer."""
        for name, status, reason in _changes(answer, self._known_standings):
            log_change = self._log.warning if status == "pending" else self._log.info
            log_change("tool registered", toolset=toolset, tool=name, status=status, reason=reason)


def is_final(error: ProblemError) -> bool:
    """Return whether the same registration would be refused again, however long one waits."""
    found = error.problem
    return found.code == "broker_denied" or (HTTPStatus.BAD_REQUEST <= found.status < 500 and not found.retryable)


def _offerable(tools: Iterable[AnyTool]) -> tuple[AnyTool, ...]:
    return tuple(one for one in tools if one.standing != REFUSED)


def _refused_tools(error: ProblemError, offered: tuple[AnyTool, ...]) -> list[tuple[AnyTool, str]]:
    """Return the discovered tools that a refused proposal names; none where another one is wrong too."""
    if error.problem.code != "request_invalid":
        return []
    places = [(_PLACE.match(one.pointer), one.detail) for one in error.problem.errors]
    found = [(offered[int(match[1])], detail) for match, detail in places if match and int(match[1]) < len(offered)]
    return found if len(found) == len(places) and all(one.spec.discovered for one, _ in found) else []


def _changes(answer: ToolsRegistered, known: dict[str, str]) -> Iterable[tuple[str, str, str]]:
    for standing in answer.standings:
        if known.get(standing.name) != (now := f"{standing.version}:{standing.status}"):
            known[standing.name] = now
            yield standing.name, standing.status, standing.reason
