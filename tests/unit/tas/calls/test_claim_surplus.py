"""Of a batch of claims the ledger is asked about few that no ticket vouches for, and about few of one call."""

import uuid

from nats.aio.msg import Msg

from towpath_contracts.tools.calls import ClaimStart
from towpath_tas.app.calls.start_claims import REFUSED, PendingClaim, without_surplus

CALL, CLAIM = uuid.uuid4(), uuid.uuid4()


def pending(execution_id: uuid.UUID = CALL, fault: str = "", claim_id: uuid.UUID | None = None) -> PendingClaim:
    asked = ClaimStart(
        execution_id=execution_id,
        run_id=CALL,
        claim_id=claim_id or uuid.uuid4(),
        attempt=1,
        worker="w",
        ticket="a.b",
    )
    message = Msg(_client=None, data=asked.model_dump_json().encode())  # type: ignore[arg-type]
    return PendingClaim(message, asked, fault)


def test_what_a_ticket_vouches_for_is_handled_behind_any_number_of_others() -> None:
    mine, late = pending(), pending(uuid.uuid4(), "expired")
    strangers = [pending(uuid.uuid4(), "forged") for _ in range(200)]
    handled, surplus = without_surplus([*strangers, mine, late])
    assert handled[-2:] == [mine, late] and len(handled) == 32 + 2
    assert len(surplus) == 200 - 32
    assert {item.answer for item in surplus} == {REFUSED}


def test_forged_claims_of_a_call_take_no_room_from_its_worker() -> None:
    mine = pending()
    handled, _ = without_surplus([*(pending(fault="mismatch") for _ in range(9)), mine])
    assert handled[-1] is mine and len(handled) == 4 + 1


def test_of_one_call_a_few_claims_are_handled_and_every_claim_is_answered() -> None:
    handled, surplus = without_surplus([pending() for _ in range(200)])
    assert len(handled) == 4 and len(surplus) == 200 - 4


def test_copies_of_a_claim_are_handled_with_it() -> None:
    handled, surplus = without_surplus([pending(claim_id=CLAIM) for _ in range(9)])
    assert [len(item.copies) for item in handled] == [8] and not surplus
