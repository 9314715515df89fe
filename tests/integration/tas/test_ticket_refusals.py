"""A ticket opens one call, once, for a while: everything else is refused by the real worker or the real service.

Each refusal leaves a trace that a person finds: an entry of the audit, or a dead letter with its reason.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.support.tas.tas_caller import TasCaller, query, row
from tests.support.tas.tas_running import Running, running
from tests.support.waiting import eventually
from tests.support.worker.running_worker import Serving, serving

from towpath import tool
from towpath_contracts import rpc, subjects
from towpath_contracts.tools.access import RaiseFence
from towpath_contracts.tools.calls import ToolInvocation
from towpath_contracts.tools.tickets import TicketClaims
from towpath_embedded.servers.nats import Nats
from towpath_fabric.tickets import TicketSigner, TicketVerifier

LIFE_S = 2
POLICY = "kind: Policy\nrules: [{name: everything, tool: 'till.*', effect: allow}]"
PAID: list[int] = []


@tool(name="till.pay", toolset="till")
async def pay(amount: int) -> int:
    """Do what can't be undone."""
    PAID.append(amount)
    return amount


@tool(name="till.look", toolset="till", effect_class="idempotent")
async def look(amount: int) -> int:
    """Do something else."""
    PAID.append(-amount)
    return amount


@dataclass
class Till:
    """A call that is over, one that was stopped and one whose ticket ran out, and a worker that finds all of them."""

    caller: TasCaller
    worker: Serving
    dsn: str
    keys: dict[str, str]
    over: ToolInvocation
    other: ToolInvocation
    stopped: ToolInvocation
    expired: ToolInvocation

    def claims(self, invocation: ToolInvocation) -> TicketClaims:
        return TicketVerifier(self.keys).open(invocation.ticket)

    def signed_by_another(self, **changes: Any) -> ToolInvocation:
        key_id = self.claims(self.over).key_id
        claims = self.claims(self.over).model_copy(update=changes)
        return but(self.over, ticket=TicketSigner(Ed25519PrivateKey.generate(), key_id).sign(claims))

    async def deliver(self, invocation: ToolInvocation) -> None:
        """Put a delivery into the toolset's queue, as whoever may write there could."""
        subject = subjects.tool_exec("default", "till")
        await self.caller.nc.jetstream().publish(subject, invocation.model_dump_json().encode(), timeout=60)

    async def letters(self) -> list[str]:
        rows = await query(self.dsn, "SELECT reason FROM runs.dead_letter WHERE stream = 'TOOLEXEC' ORDER BY 1")
        return [found["reason"].partition(":")[0] for found in rows]

    def refused_more_than(self, reason: str, before: float) -> bool:
        return self.worker.count("towpath_worker_refused_total", reason=reason) > before

    async def another_letter(self, before: int) -> None:
        for _ in range(600):
            if len(await self.letters()) > before:
                return
            await asyncio.sleep(0.05)
        raise AssertionError(await self.letters())

    async def refused_claims(self, execution_id: uuid.UUID) -> list[str]:
        entries = await self.caller.audit(execution_id=execution_id, phase="claim", verdict="refused")
        return [entry.detail["reason"] for entry in entries]


def but(invocation: ToolInvocation, **changes: Any) -> ToolInvocation:
    return invocation.model_copy(update=changes)


@pytest.fixture
async def till(nats_server: Nats, database: Callable[..., str], folder: Path) -> AsyncIterator[Till]:
    PAID.clear()
    settings = {"ticket_life_s": str(LIFE_S)}
    async with running(nats_server, database, folder, **settings) as place:
        async with serving(nats_server.url(), tools=[pay, look]) as worker:
            await eventually(lambda: worker.worker._registration.done)
            await place.caller.apply(POLICY)
        expired = await called(place, 1)
        await asyncio.sleep(LIFE_S + 0.5)  # what is waited for is the time itself
        stopped = await called(place, 2)
        fence = RaiseFence(run_id=stopped.run_id, project="default", fence=1)
        assert (await place.caller.send(rpc.RAISE_FENCE, fence)).voided == (stopped.execution_id,)
        async with serving(nats_server.url(), tools=[pay, look]) as worker:
            over, other = await called(place, 3), await called(place, 4)
            for invocation in (over, other, expired):
                await place.caller.fact(invocation, "tool.finished")
            registered = await place.caller.register(pay.spec, look.spec, owner="till")
            keys = registered.ticket_keys
            yield Till(place.caller, worker, place.dsn, keys, over, other, stopped, expired)


async def called(place: Running, amount: int) -> ToolInvocation:
    request = place.caller.request("till.pay", toolset="till", args={"amount": amount})
    return await place.caller.dispatched(await place.caller.put(request))


Made = Callable[[Till], ToolInvocation]
WORKER: dict[str, tuple[Made, str]] = {
    "no ticket": (lambda till: but(till.over, ticket=""), "ticket_missing"),
    "nonsense": (lambda till: but(till.over, ticket="a.b"), "ticket_forged"),
    "signed by another": (lambda till: till.signed_by_another(), "ticket_forged"),
    "its life prolonged": (lambda till: till.signed_by_another(expires_at=time.time() + 9_999), "ticket_forged"),
    "changed arguments": (lambda till: but(till.over, args={"amount": 3_000}), "ticket_mismatch"),
    "another tool": (lambda till: but(till.over, tool="till.look"), "ticket_mismatch"),
    "another attempt": (lambda till: but(till.over, attempt=2), "ticket_mismatch"),
    "another call of another run": (lambda till: but(till.over, ticket=till.other.ticket), "ticket_mismatch"),
    "another run": (lambda till: but(till.over, run_id=till.other.run_id), "ticket_mismatch"),
    "another project": (lambda till: but(till.over, project="shop"), "misdirected"),
}
"""What the worker refuses by looking at the ticket: it becomes a dead letter with this reason."""

SERVICE: dict[str, tuple[Callable[[Till], tuple[ToolInvocation, str]], str]] = {
    "replayed": (lambda till: (till.over, till.over.ticket), "succeeded"),
    "stale fence": (lambda till: (till.stopped, till.stopped.ticket), "void"),
    "forged": (lambda till: (till.over, till.signed_by_another().ticket), "succeeded"),
    "an older attempt": (lambda till: (till.expired, till.expired.ticket), "succeeded"),
}
"""What the service refuses whoever claims it, with the word that the audit keeps."""


async def test_no_other_use_of_a_ticket_runs_anything_and_each_is_on_record(till: Till) -> None:
    assert sorted(PAID) == [1, 3, 4], "the stopped one was not, the one whose ticket ran out was, once"
    assert (await row(till.dsn, till.expired.execution_id))["attempt"] > 1, "authorised again for it"
    again = await till.caller.audit(execution_id=till.expired.execution_id, phase="dispatch")
    assert again[0].detail["reason"] == "the ticket ended"
    assert await till.refused_claims(till.stopped.execution_id) == ["void"]
    for made, reason in WORKER.values():  # one by one: deliveries of one attempt that come together are one
        before = till.worker.count("towpath_worker_refused_total", reason=reason)
        letters = len(await till.letters())
        await till.deliver(made(till))
        await eventually(partial(till.refused_more_than, reason, before))
        await till.another_letter(letters)
    assert await till.letters() == sorted(reason for _, reason in WORKER.values())
    for name, (make_claim, word) in SERVICE.items():
        invocation, ticket = make_claim(till)
        answer = await till.caller.claim(but(invocation, ticket=ticket))
        assert (answer.granted, answer.reason) == (False, word), name
        assert (await till.refused_claims(invocation.execution_id))[-1] == word
    assert sorted(PAID) == [1, 3, 4]


async def test_an_open_call_is_started_with_its_own_ticket_and_with_no_other(till: Till) -> None:
    """The same uses of a ticket while its call may still start: here it is the ticket alone that stands in the way."""
    async with TasCaller(till.caller.url, "shop") as caller:
        await caller.set_up()
        waiting = await caller.call("orders.refund")
        forged = TicketSigner(Ed25519PrivateKey.generate(), till.claims(waiting).key_id).sign(till.claims(waiting))
        for ticket, reason in (
            (forged, "ticket_forged"),
            (till.over.ticket, "ticket_mismatch"),
            ("", "ticket_missing"),
        ):
            answer = await caller.claim(but(waiting, ticket=ticket))
            assert (answer.granted, answer.reason) == (False, reason)
        await asyncio.sleep(LIFE_S + 0.5)
        assert (await caller.claim(waiting)).reason == "ticket_expired"
        entries = await caller.audit(execution_id=waiting.execution_id, phase="claim")
        assert [entry.detail["reason"] for entry in entries] == [
            *("ticket_forged", "ticket_mismatch", "ticket_missing", "ticket_expired"),
        ]
