"""Sets, clears and lists stop switches.

A switch holds from the commit that stores it, in every replica: the same commit increments the version under which
every decision and every start is stored, and writes the audit entry. Waking the runs that wait is only faster: a run
that is not woken asks again by itself.
"""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from nats import errors as nats_errors

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.rpc import WAKE_PAUSED
from towpath_contracts.switches import (
    OPERATOR,
    ActiveSwitch,
    ListSwitches,
    SetSwitch,
    SwitchList,
    SwitchSet,
    WakePaused,
)
from towpath_fabric.ids import new_run_id
from towpath_fabric.ports import Database, MessageBus
from towpath_fabric.postgres.pool import Queries
from towpath_fabric.telemetry.logs import Logger
from towpath_fabric.turns.work_turns import WorkTurns
from towpath_tas.adapters.ledger_tables import QUERIES, call_from_row, platform_audit_row
from towpath_tas.app.calls.dispatcher import LedgerEffectPublisher
from towpath_tas.core.call import LedgerCall, LedgerChange, StopCall, key_detail
from towpath_tas.core.calls.switch_holds import principal_of
from towpath_tas.core.switches import OpenSwitches

SWITCHES = Queries.load("towpath_tas.adapters", "switches.sql")

MAX_SWITCHES = 1_000
"""Open switches of one project: a call may have to be compared with all of them."""

PAGE_SIZE = 500

SET_AT_ONCE = 2
"""Switches that are stored at the same time, of one project one: the next waits for its lock anyway, and would take a
connection meanwhile from the switches of others."""

SET_WAIT_S = 4.0
"""How long a switch waits for its turn: its caller waits for an answer for longer."""


class SwitchCommands:
    """Sets, lifts and lists stop switches; answers requests of people."""

    def __init__(self, pool: Database, bus: MessageBus, dispatcher: LedgerEffectPublisher, log: Logger) -> None:
        self._pool = pool
        self._bus = bus
        self._dispatcher = dispatcher
        self._log = log
        self._turns = WorkTurns(SET_AT_ONCE, lambda _: 1, SET_WAIT_S)

    async def set(self, request: SetSwitch) -> SwitchSet:
        """Pause or resume; raises ProblemError for a person without the role, or without a reason.

        So it does (`overloaded`) where too many of the project come before it.
        """
        _check(request)
        async with self._turns.held(request.project):
            switch, changed = await self._store(request)
        stopping = 0
        if request.paused and request.stop_running and switch is not None:
            stopping = await self._stop(request, switch)
        if changed and not request.paused and switch is not None:
            await self._wake(request, switch)
        return SwitchSet(switch=switch, changed=changed, stopping=stopping)

    async def list(self, request: ListSwitches) -> SwitchList:
        rows = await self._pool.fetch(SWITCHES.open_switches, request.project)
        return SwitchList(switches=tuple(ActiveSwitch(**dict(row)) for row in rows))

    async def _store(self, request: SetSwitch) -> tuple[ActiveSwitch | None, bool]:
        """Store the switch and its audit entry in one transaction; an identical setting changes no switch."""
        place = (request.project, request.kind, request.name)
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.fetchrow(QUERIES.lock_project, request.project)
            if request.paused:
                await _check_limit(connection, request.project)
                wanted = (*place, new_run_id(), request.reason, request.actor)
                row = await connection.fetchrow(SWITCHES.pause, *wanted)
            else:
                row = await connection.fetchrow(SWITCHES.resume, *place)
            if row is None:
                return await _existing_switch(connection, request), False
            switch = ActiveSwitch(**dict(row))
            await connection.execute(QUERIES.move_registry, request.project)
            word = "paused" if request.paused else "resumed"
            await connection.execute(QUERIES.add_audit, [_audit_row(request, switch, word)])
        return switch, True

    async def _wake(self, request: SetSwitch, switch: ActiveSwitch) -> None:
        waking = WakePaused(
            project=request.project, switch_id=switch.switch_id, actor=request.actor, reason=request.reason
        )
        try:
            await self._bus.request(WAKE_PAUSED, waking)
        except (ProblemError, TimeoutError, nats_errors.Error) as error:
            self._log.warning("runs that waited for a switch go on by themselves", why=str(error))

    async def _stop(self, request: SetSwitch, switch: ActiveSwitch) -> int:
        """Ask every running call under *switch* to stop, with the reason of the request; outcomes arrive as usual."""
        switches, stopping = OpenSwitches((switch,)), 0
        why = switch.model_copy(update={"paused_by": request.actor, "reason": request.reason}).describe()
        async for call in self._running(request.project):
            if switches.find(principal_of(call), call.tool) is not None:
                stop = StopCall(execution_id=call.execution_id, project=call.project, toolset=call.toolset, reason=why)
                await self._dispatcher.send(LedgerChange(effects=(stop,)))
                stopping += 1
        return stopping

    async def _running(self, project: str) -> AsyncIterator[LedgerCall]:
        after = (UUID(int=0), UUID(int=0))
        while rows := await self._pool.fetch(SWITCHES.running_calls, project, *after, PAGE_SIZE):
            for row in rows:
                yield call_from_row(row)
            after = (rows[-1]["run_id"], rows[-1]["execution_id"])


def _check(request: SetSwitch) -> None:
    if OPERATOR not in request.roles:
        raise ProblemError(problem("role_missing", f"{request.actor} does not have the role {OPERATOR}"))
    if not request.reason.strip():
        raise ProblemError(problem("reason_required", "people who wait read it"))
    if request.kind == "project" and request.name != request.project:
        raise ProblemError(
            problem("request_invalid", f"this credential acts in {request.project}, and pauses no other")
        )


async def _existing_switch(connection: Any, request: SetSwitch) -> ActiveSwitch | None:
    """Return the switch as it is. A request to stop calls under an existing switch is audited too."""
    row = await connection.fetchrow(SWITCHES.find_switch, request.project, request.kind, request.name)
    switch = None if row is None else ActiveSwitch(**dict(row))
    if switch is not None and request.paused and request.stop_running:
        await connection.execute(QUERIES.add_audit, [_audit_row(request, switch, "stopping")])
    return switch


async def _check_limit(connection: Any, project: str) -> None:
    open_now = await connection.fetch(SWITCHES.open_switches, project)
    if len(open_now) >= MAX_SWITCHES:
        raise ProblemError(problem("limit_exceeded", f"{len(open_now)} switches are open; resume what is over first"))


def _audit_row(request: SetSwitch, switch: ActiveSwitch, word: str) -> tuple[Any, ...]:
    detail = {
        "switch_id": str(switch.switch_id),
        "kind": switch.kind,
        "name": switch.name,
        "reason": request.reason,
        "stop_running": request.stop_running,
        **key_detail(request.key_prefix, request.key_commitment),
    }
    tool = switch.name if switch.kind == "tool" else ""
    return platform_audit_row(request.project, f"switch.{word}", word, actor=request.actor, tool=tool, detail=detail)
