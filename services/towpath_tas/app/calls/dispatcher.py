"""Publishes what a stored change wants sent: invocations with their tickets, facts for runs, requests to stop.

Nothing is sent before its change is stored, and nothing waits for delivery: a run asks again for what got lost, and is
answered from the ledger.
"""

import json
from datetime import datetime
from uuid import UUID

from towpath_contracts import subjects
from towpath_contracts.canonical import canonical_json, digest_text
from towpath_contracts.tools.calls import CancelTool
from towpath_contracts.tools.tickets import TicketClaims
from towpath_fabric.crash_points import crash_point, crash_point_after_flush
from towpath_fabric.ports import MessageBus
from towpath_fabric.tickets import TicketRefusedError, TicketSigner, TicketVerifier
from towpath_tas.app.calls.postgres_clock import PostgresClock
from towpath_tas.core.call import DispatchCall, LedgerCall, LedgerChange, SendFact, StopCall
from towpath_tas.core.calls.internal_calls import is_internal, permission_fact
from towpath_tas.metrics import TasMetrics

MESSAGE_ID = "Nats-Msg-Id"

MAX_TICKETS = 4_096
"""Issued tickets that are cached, so that most outcomes need no signature check: as many calls as are on their way.

Each takes 2 KB until newer ones replace it, long after its call has ended.
"""


class TicketIssuer:
    """Issues tickets and checks them."""

    def __init__(self, signer: TicketSigner, clock: PostgresClock, life_s: int) -> None:
        self._signer = signer
        self._verifier = TicketVerifier(signer.public_keys())
        self._clock = clock
        self._life_s = life_s
        self._issued: dict[str, TicketClaims] = {}

    def public_keys(self) -> dict[str, str]:
        return self._signer.public_keys()

    def now(self) -> datetime | None:
        """Return Postgres's time, by which tickets expire; None until it is known."""
        return self._clock.now() if self._clock.known else None

    def issue(self, call: LedgerCall, run_digest: str) -> str:
        """Return the ticket for the current attempt of *call*, and for the description of its run with *run_digest*.

        It expires with the call's deadline at the latest.
        """
        now = self._clock.now().timestamp()
        claims = TicketClaims.model_construct(
            execution_id=call.execution_id,
            attempt=call.attempt,
            run_id=call.run_id,
            project=call.project,
            fence=call.fence,
            tool=call.tool,
            args_digest=call.args_digest,
            run_digest=run_digest,
            effect_class=call.effect_class,
            policy_version=call.policy_version,
            issued_at=now,
            expires_at=min(now + self._life_s, call.deadline.timestamp()),
            key_id=self._signer.key_id,
        )
        ticket = self._signer.sign(claims)
        while len(self._issued) >= MAX_TICKETS:
            del self._issued[next(iter(self._issued))]
        self._issued[ticket] = claims
        return ticket

    def fault(self, ticket: str, execution_id: UUID, attempt: int, run_id: UUID, *, at_start: bool) -> str:
        """Return what is wrong with *ticket* for this call, or an empty string; *at_start* also checks its expiry."""
        claims = self._issued.get(ticket)
        if claims is None:
            try:
                claims = self._verifier.open(ticket)
            except TicketRefusedError as error:
                return str(error.reason)
        if (claims.execution_id, claims.attempt, claims.run_id) != (execution_id, attempt, run_id):
            return "mismatch"
        return "expired" if at_start and self._clock.now().timestamp() > claims.expires_at else ""

    def read(self, ticket: str) -> TicketClaims:
        """Return the claims of a valid ticket, however old it is; raises TicketRefusedError."""
        return self._issued.get(ticket) or self._verifier.open(ticket)


class LedgerEffectPublisher:
    """Publishes the effects of ledger changes."""

    def __init__(self, bus: MessageBus, tickets: TicketIssuer, metrics: TasMetrics) -> None:
        self._bus = bus
        self._tickets = tickets
        self._metrics = metrics

    async def send(self, change: LedgerChange, root: UUID | None = None) -> None:
        """Publish all effects of *change*; *root* is the root run of the call, for rows that do not know theirs."""
        for effect in change.effects:
            match effect:
                case DispatchCall() if is_internal(effect.call):
                    await self._send_fact(effect.call.run_id, permission_fact(effect.call))
                case DispatchCall():
                    await self._dispatch(effect.call, root)
                case SendFact():
                    await self._send_fact(effect.run_id, effect.fact)
                case StopCall():
                    body = CancelTool(execution_id=effect.execution_id, reason=effect.reason).model_dump_json()
                    subject = subjects.tool_cancel(effect.project, effect.toolset, effect.execution_id)
                    await self._bus.publish(subject, body.encode())
        self._count(change)

    async def _send_fact(self, run_id: UUID, fact: str) -> None:
        crash_point("tas.before_tell")
        self._metrics.facts.inc()
        await self._bus.publish(subjects.run_inbox("tas", run_id), fact.encode())
        await crash_point_after_flush("tas.told")

    async def _dispatch(self, call: LedgerCall, root: UUID | None) -> None:
        crash_point("tas.before_dispatch")
        self._metrics.dispatches.inc()
        run = call.calling_run(root)
        text = canonical_json(run)
        above = run.get("root_run_id", "")
        body = invocation_body(call, self._tickets.issue(call, digest_text(text)), text, above)
        headers = {MESSAGE_ID: f"{call.execution_id}:{call.attempt}"}
        await self._bus.publish(subjects.tool_exec(call.project, call.toolset), body, headers)
        await crash_point_after_flush("tas.dispatched")

    def _count(self, change: LedgerChange) -> None:
        for note in change.notes:
            match note.phase:
                case "decision":
                    self._metrics.decisions.labels(note.verdict).inc()
                case "claim":
                    self._metrics.claims.labels(note.verdict).inc()
                case "outcome" | "settled":
                    self._metrics.outcomes.labels(note.verdict, note.call.effect_class).inc()
                case "evidence":
                    self._metrics.evidence.inc()
                case _:
                    continue


def invocation_body(call: LedgerCall, ticket: str, run: str, root: str = "") -> bytes:
    """Return the ToolInvocation of *call* as JSON. Arguments and *run* are JSON already and are not parsed again."""
    files = f',"workspace":{json.dumps(call.workspace)}' if call.workspace else ""
    above = f',"root_run_id":"{root}"' if root not in {"", str(call.run_id)} else ""
    traced = f',"trace_id":"{call.trace_id}"' if call.trace_id else ""
    return (
        f'{{"schema_version":1,"execution_id":"{call.execution_id}","attempt":{call.attempt},"run_id":"{call.run_id}",'
        f'"project":{json.dumps(call.project)},"toolset":{json.dumps(call.toolset)},"tool":{json.dumps(call.tool)},'
        f'"args":{call.args},"effect_class":"{call.effect_class}","timeout_ms":{call.timeout_ms},"ticket":"{ticket}"'
        f',"run":{run}{files}{above}{traced}}}'
    ).encode()
