"""Requests that become facts: cancel a run, resolve a gate, wake what a switch held; and labels, which are none."""

import asyncio
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from towpath_contracts.facts import AnyFact, CancelRequestedFact, GateResolvedFact
from towpath_contracts.problems.registry import Problem, ProblemError, problem
from towpath_contracts.rpc import SETTLE_CALL
from towpath_contracts.runs.bulk import MAX_LABELS, LabelRun
from towpath_contracts.runs.gate_delegations import RESOLVER_ROLES, ROLE_PREFIX, DelegateGate, roles_that_decide
from towpath_contracts.runs.run_control import NO_QUESTIONS, RUN_PAUSED
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.runs.views import ActionDone, CancelRun, GateView, GetEvents, GetRun, ListGates, ResolveGate
from towpath_contracts.switches import PAUSED, WakePaused
from towpath_contracts.tools.access import SettleCall
from towpath_fabric.clock import monotonic
from towpath_fabric.ports import Database, MessageBus
from towpath_fabric.postgres.pool import Queries
from towpath_orchestrator.adapters.run_store import QUERIES
from towpath_orchestrator.adapters.storable_text import storable_json
from towpath_orchestrator.app.api.queries import RunQueries
from towpath_orchestrator.app.api.run_control import store_fact
from towpath_orchestrator.app.audited_actions import record_action
from towpath_orchestrator.app.local_facts import LocalFactQueue

CANCELLING = "cancelling"
LOG_UNREADABLE = "log_unreadable"
"""Why a run is parked whose log this version can't fold: facts for it become dead letters."""

FOLDED_WITHIN_S = 4.0
"""A fact is folded in milliseconds; whoever asks waits 5 s for an answer."""

LOOK_EVERY_S = 0.05
"""Between looks at a gate whose resolution is stored; folding it takes some ten milliseconds."""

UNKNOWN_VERDICTS = ("happened", "did_not_happen", "retry")
RUN_VERDICTS = ("approved", "denied", "stop")
"""A run's own gate: go on, go on differently, end."""


class RunCommands:
    """Checks a person's request and stores the fact in the inbox: what was answered survives this process."""

    def __init__(self, queries: RunQueries, bus: MessageBus, pool: Database) -> None:
        self._queries = queries
        self._bus = bus
        self._pool = pool

    async def cancel(self, request: CancelRun) -> ActionDone:
        """Ask a run to stop; it answers `cancelling` and then `cancelled` in its own log.

        Who asks is audited first, once although the request may be sent again; not who asks behind somebody else.
        """
        run = await self._queries.get_run(GetRun(project=request.project, run_id=request.run_id))
        if run.status in FINAL_STATUSES:
            raise ProblemError(problem("run_finished", f"run {request.run_id} is {run.status}", run_id=str(run.run_id)))
        if run.reason == LOG_UNREADABLE:
            detail = f"the log of run {request.run_id} can't be read: it takes no step, and can't be stopped"
            raise ProblemError(problem("run_unreadable", detail, run_id=str(run.run_id)))
        if run.status != CANCELLING:
            by, reason = request.actor, request.reason
            await record_action(
                self._bus, request, "run.cancel_requested", reason=reason, run_id=request.run_id, once=True
            )
            fact = CancelRequestedFact(run_id=request.run_id, by=by, reason=reason, in_answer=True)
            await store_fact(self._bus, fact)
            await self._cancelling(request, run.seq)
        return ActionDone(detail="the run is asked to stop")

    async def label(self, request: LabelRun) -> ActionDone:
        """Change the labels by which lists find a run. Its log, and what it costs by label, keep those of its task.

        Who does it is audited first. Raises ProblemError where the run would have too many.
        """
        run = await self._queries.get_run(GetRun(project=request.project, run_id=request.run_id))
        left = {name: value for name, value in run.labels.items() if name not in request.remove} | request.labels
        if len(left) > MAX_LABELS:
            detail = f"run {request.run_id} would have {len(left)} labels, above {MAX_LABELS}"
            raise ProblemError(problem("limit_exceeded", detail, run_id=str(run.run_id)))
        if left != run.labels:
            await record_action(
                self._bus,
                request,
                "run.labelled",
                reason=request.reason,
                run_id=request.run_id,
                labels=dict(request.labels),
                removed=list(request.remove),
            )
            added, removed = storable_json(request.labels), list(request.remove)
            await self._pool.execute(QUERIES.label_run, request.project, request.run_id, added, removed)
        return ActionDone(detail="the labels are changed" if left != run.labels else "the labels are so already")

    async def _cancelling(self, request: CancelRun, seq: int) -> None:
        """Wait until the log holds the request: a broker that loses its data must not lose what was answered."""
        until = monotonic() + FOLDED_WITHIN_S
        while (left := until - monotonic()) > 0:
            look = GetEvents(
                project=request.project, run_id=request.run_id, after=seq, limit=1_000, wait_ms=int(left * 1000)
            )
            await self._queries.await_news(look)
            page = await self._queries.events(look)
            if page.status == CANCELLING or page.status in FINAL_STATUSES:
                return
            seq = page.entries[-1].seq if page.entries else seq
        raise ProblemError(problem("unavailable", "the run's log does not hold it yet; ask again", retry_after_s=2))

    async def resolve_gate(self, request: ResolveGate) -> ActionDone:
        """Settle a gate that is not an approval, for an operator or an approver; a switch's gate is nobody's to open.

        Their decision is audited by TAS first.
        """
        gate = await self._gate(request)
        if gate.status != "pending":
            raise ProblemError(problem("gate_settled", f"gate {gate.gate_id} is {gate.status}"))
        if gate.gate_type == PAUSED:
            remedy = "Resume what is paused: towpath switches list."
            raise ProblemError(problem("verdict_invalid", f"{gate.reason}; only the switch opens it", remedy=remedy))
        if gate.gate_type == RUN_PAUSED:
            remedy = f"Let the run go on: towpath runs resume {gate.run_id}."
            raise ProblemError(problem("verdict_invalid", f"{gate.reason}; only a resume opens it", remedy=remedy))
        if gate.approval_id is not None:
            raise ProblemError(problem("verdict_invalid", "approvals are decided by the tool-access service"))
        if RESOLVER_ROLES.isdisjoint(request.roles):
            wanted = " or ".join(sorted(RESOLVER_ROLES))
            raise ProblemError(problem("role_missing", f"{request.actor} does not have the role {wanted}"))
        if gate.gate_type == "unknown_effect" and gate.execution_id is not None:
            if request.verdict not in UNKNOWN_VERDICTS:
                raise ProblemError(_verdict_invalid(gate, UNKNOWN_VERDICTS))
            settle = SettleCall(
                project=request.project,
                run_id=gate.run_id,
                execution_id=gate.execution_id,
                verdict=request.verdict,
                actor=request.actor,
                key_prefix=request.key_prefix,
                key_commitment=request.key_commitment,
                reason=request.reason,
            )
            await self._bus.request(SETTLE_CALL, settle)
        else:
            await self._before_run_gate(request, gate)
        await store_fact(
            self._bus,
            GateResolvedFact(
                run_id=gate.run_id,
                gate_id=gate.gate_id,
                verdict=request.verdict,
                reason=request.reason,
                by=request.actor,
            ),
        )
        if gate.execution_id is None:
            await self._settled(request)
        return ActionDone(detail=f"gate {gate.gate_id}: {request.verdict}")

    async def _before_run_gate(self, request: ResolveGate, gate: GateView) -> None:
        """Check a decision on a run's own gate, and have it audited before it takes effect."""
        if request.verdict not in RUN_VERDICTS:
            raise ProblemError(_verdict_invalid(gate, RUN_VERDICTS))
        if request.verdict == "denied" and not request.reason.strip():
            raise ProblemError(problem("reason_required", "say what is to be done differently: the model sees it"))
        await record_action(
            self._bus,
            request,
            "gate.resolved",
            reason=request.reason,
            run_id=gate.run_id,
            gate_id=str(gate.gate_id),
            gate_type=gate.gate_type,
            verdict=request.verdict,
        )

    async def _settled(self, request: ResolveGate) -> None:
        """Wait until the run has taken a decision on its gate; of two at once only one is taken."""
        until = monotonic() + FOLDED_WITHIN_S
        while monotonic() < until:
            gate = await self._gate(request)
            if gate.status != "pending":
                if (gate.closed_by, gate.verdict) != (request.actor, request.verdict):
                    raise ProblemError(problem("gate_settled", f"gate {gate.gate_id} is {gate.verdict} already"))
                return
            await asyncio.sleep(LOOK_EVERY_S)
        raise ProblemError(problem("unavailable", "the run's log does not hold it yet; ask again", retry_after_s=2))

    async def delegate_gate(self, request: DelegateGate) -> GateView:
        """Say whose a gate is to decide, for somebody who may decide there; nobody gets a right by it, or loses one.

        Refused for whom it would be of no use: a role or a key without the word there, who has spoken, who asked.
        """
        gate = await self._gate(request)
        wanted, names = roles_that_decide(gate), " or ".join(sorted(roles_that_decide(gate)))
        if gate.status != "pending":
            raise ProblemError(problem("gate_settled", f"gate {gate.gate_id} is {gate.status}"))
        if gate.gate_type in NO_QUESTIONS:
            raise ProblemError(problem("verdict_invalid", f"{gate.reason}; nobody decides there"))
        if wanted.isdisjoint(request.roles):
            raise ProblemError(problem("role_missing", f"{request.actor} does not have the role {names}"))
        if request.to.startswith(ROLE_PREFIX):
            lacking = request.to.removeprefix(ROLE_PREFIX) not in wanted
            why = f"gate {gate.gate_id} is decided by the role {names}"
        elif any(vote.actor == request.to for vote in gate.votes):
            lacking, why = True, f"{request.to} has decided there"
        elif gate.approval_id is not None and request.to == await self._requester(gate):
            lacking, why = True, f"{request.to} asked for it, and four eyes are wanted"
        else:
            lacking = request.known_roles is not None and wanted.isdisjoint(request.known_roles)
            why = f"no key of {request.to} has the role {names}"
        if lacking:
            raise ProblemError(problem("delegate_may_not_decide", why))
        await record_action(
            self._bus,
            request,
            "gate.delegated",
            reason=request.reason,
            run_id=gate.run_id,
            gate_id=str(gate.gate_id),
            to=request.to,
        )
        handed = (request.gate_id, request.project, request.to, request.actor, request.reason)
        if await self._pool.fetchval(QUERIES.delegate_gate, *handed) is None:
            raise ProblemError(problem("gate_settled", f"gate {gate.gate_id} was closed meanwhile"))
        return await self._gate(request)

    async def _requester(self, gate: GateView) -> str:
        run = await self._queries.get_run(GetRun(project=gate.project, run_id=gate.run_id))
        return run.caller

    async def _gate(self, request: ResolveGate | DelegateGate) -> GateView:
        page = await self._queries.list_gates(
            ListGates(project=request.project, status=None, gate_id=request.gate_id, limit=1)
        )
        if not page.gates:
            raise ProblemError(problem("gate_not_found", f"no gate {request.gate_id} in the project {request.project}"))
        return page.gates[0]


def _verdict_invalid(gate: GateView, verdicts: Iterable[str]) -> Problem:
    return problem("verdict_invalid", f"say one of: {', '.join(verdicts)}", known={"gate_id": gate.gate_id})


RECORDS = Queries.load("towpath_orchestrator.adapters", "records.sql")


AT_ONCE = 500
"""Gates read at once; a switch may hold thousands."""


class HeldCallResumer:
    """Answers `svc.orchestrator.wake_paused`."""

    def __init__(self, pool: Database, local_facts: LocalFactQueue) -> None:
        self._pool = pool
        self._local_facts = local_facts

    async def wake(self, request: WakePaused) -> ActionDone:
        """Tell every run that waits behind a gate of this pause that it may go on."""
        after, woken = UUID(int=0), 0
        while rows := await self._waiting(request, after):
            for row in rows:
                self._local_facts.add(_resumed(request, row))
            after, woken = rows[-1]["gate_id"], woken + len(rows)
        return ActionDone(detail=f"{woken} call(s) go on")

    async def _waiting(self, request: WakePaused, after: UUID) -> list[Any]:
        rows: list[Any] = await self._pool.fetch(
            RECORDS.paused_gates, request.project, str(request.switch_id), after, AT_ONCE
        )
        return rows


def _resumed(request: WakePaused, row: Any) -> AnyFact:
    return GateResolvedFact(
        run_id=row["run_id"],
        fact_id=f"{row['gate_id']}:resumed",
        gate_id=row["gate_id"],
        verdict="resumed",
        reason=request.reason,
        by=request.actor,
    )
