"""Tickets that are kept, so that most outcomes need no signature check, stay few and small; what is dropped is read."""

import tracemalloc
from dataclasses import replace
from types import SimpleNamespace
from uuid import uuid4

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.support.tas.tas_calls import NOW, ask, request

from towpath_fabric.tickets import TicketSigner
from towpath_tas.app.calls.dispatcher import TicketIssuer

MOST_BYTES = 9 * 2**20
ISSUED = 6_000


def test_the_tickets_of_many_calls_take_little_memory_and_each_is_still_read() -> None:
    clock = SimpleNamespace(now=lambda: NOW, known=True)
    issuer = TicketIssuer(TicketSigner(Ed25519PrivateKey.generate()), clock, 60)  # type: ignore[arg-type]
    call = ask(None, request()).call
    assert call is not None
    calls = [replace(call, execution_id=uuid4()) for _ in range(ISSUED)]
    first = issuer.issue(calls[0], "digest")
    tracemalloc.start()
    try:
        for one in calls[1:]:
            last = issuer.issue(one, "digest")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < MOST_BYTES, f"{held / 2**20:.1f} MiB"
    for ticket, one in ((first, calls[0]), (last, calls[-1])):
        assert issuer.read(ticket).execution_id == one.execution_id
        assert not issuer.fault(ticket, one.execution_id, one.attempt, one.run_id, at_start=True)
