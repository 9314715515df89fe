"""Of an outcome of some length no more is read than its ticket vouches for, and of one call no more than is handled."""

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from nats.aio.msg import Msg

from towpath_contracts.rpc import OUTCOME_HEADER
from towpath_contracts.tools.calls import EffectClass, outcome_key
from towpath_contracts.tools.tickets import TicketClaims
from towpath_fabric.tickets import TicketSigner
from towpath_tas.app.calls.dispatcher import TicketIssuer
from towpath_tas.app.calls.outcome_reader import (
    OutcomeFault,
    OutcomeHead,
    OutcomeReader,
    ReadOutcome,
)
from towpath_tas.app.calls.postgres_clock import PostgresClock

CALL, RUN = uuid.uuid4(), uuid.uuid4()
KIB = 1_024
SIGNER = TicketSigner(Ed25519PrivateKey.generate())
NOW = datetime(2026, 11, 26, tzinfo=UTC)
TICKET = SIGNER.sign(
    TicketClaims(
        execution_id=CALL,
        attempt=1,
        run_id=RUN,
        project="shop",
        fence=0,
        tool="t",
        args_digest="",
        effect_class=EffectClass.PURE,
        policy_version=1,
        issued_at=NOW.timestamp(),
        expires_at=(NOW + timedelta(minutes=5)).timestamp(),
        key_id=SIGNER.key_id,
    )
)


def reader() -> OutcomeReader:
    return OutcomeReader(TicketIssuer(SIGNER, PostgresClock(), 300))


def message(result: Any, ticket: str = TICKET, *, named: bool = True, confirm: str = "", **more: Any) -> Msg:
    body = {"execution_id": str(CALL), "run_id": str(RUN), "attempt": 1, "tool": "t", "status": "succeeded"}
    headers = {OUTCOME_HEADER: f"{outcome_key(CALL, 1)} {ticket}"} if named else {}
    data = json.dumps({**body, "ticket": ticket, "result": result, **more}).encode()
    return Msg(_client=None, data=data, headers={**headers, "Towpath-Confirm": confirm})  # type: ignore[arg-type]


def found(sent: Msg, by: OutcomeReader | None = None) -> ReadOutcome:
    read = (by or reader()).read(sent)
    assert isinstance(read, ReadOutcome), read
    return read


@pytest.mark.parametrize("length", [1, 50_000, 96 * KIB, 512 * KIB - 2_000])
def test_what_a_ticket_vouches_for_is_read_whole(length: int) -> None:
    changed = [{"path": "a.txt", "digest": None, "size": 0}]
    outcome, fault = found(message("x" * length, changes=changed))
    assert (outcome.result, fault, len(outcome.changes)) == ("x" * length, "", 1)


def test_of_a_long_outcome_that_nothing_vouches_for_the_result_is_not_read() -> None:
    outcome, fault = found(message(["x"] * 9_000, "a.b", duration_ms=7))
    assert isinstance(outcome, OutcomeHead) and fault
    assert (outcome.result, outcome.changes, outcome.duration_ms) == (None, (), 7)


def test_an_outcome_that_no_honest_worker_sends_is_not_read_at_all() -> None:
    long = "x" * (96 * KIB)
    for sent in (message("x" * (512 * KIB)), message(long, named=False), message(long, "a.b")):
        read = reader().read(sent)
        assert isinstance(read, OutcomeFault) and read.is_unread
    nothing = reader().read(Msg(_client=None, data=b"{}"))  # type: ignore[arg-type]
    assert isinstance(nothing, OutcomeFault) and not nothing.is_unread


def test_of_one_call_as_many_are_read_whole_as_are_handled_and_copies_are_the_same() -> None:
    read = reader()
    texts = [f"{number}" * 5_000 for number in range(6)]
    whole = [found(message(text), read).outcome.result for text in texts]
    assert whole == [*texts[:4], None, None]
    again = found(message(texts[0], confirm="elsewhere"), read).outcome
    assert again.result == texts[0]


def test_a_name_that_stands_for_what_is_not_read_can_not_be_used() -> None:
    assert isinstance(reader().read(message("x" * 5_000, "a.b", **{"unread\0": [[]]})), OutcomeFault)
