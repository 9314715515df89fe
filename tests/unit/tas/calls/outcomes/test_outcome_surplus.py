"""Of a batch of outcomes the ledger is asked about few that nothing vouches for, and about few of one call."""

import uuid
from collections.abc import Iterable

from nats.aio.msg import Msg

from towpath_contracts.tools.calls import ToolOutcome
from towpath_fabric.dead_letters import MAX_REPORTED_BODY
from towpath_tas.app.calls.tool_outcomes import PendingOutcome, without_surplus

CALL = uuid.uuid4()


def pending(execution_id: uuid.UUID, fault: str = "", worker: str = "w") -> PendingOutcome:
    outcome = ToolOutcome(
        execution_id=execution_id, run_id=CALL, attempt=1, tool="t", status="succeeded", worker=worker, ticket="a.b"
    )
    message = Msg(_client=None, data=outcome.model_dump_json().encode())  # type: ignore[arg-type]
    return PendingOutcome(message, outcome, fault)


def strangers(count: int) -> Iterable[PendingOutcome]:
    return (pending(uuid.uuid4(), "forged") for _ in range(count))


def test_what_a_ticket_vouches_for_is_handled_behind_any_number_of_others() -> None:
    mine = pending(CALL)
    handled, surplus = without_surplus([*strangers(200), mine])
    assert len(handled) == 32 + 1 and handled[-1] is mine
    assert len(surplus) == 200 - 32
    assert {letter.kept_bytes for letter in surplus} == {MAX_REPORTED_BODY}


def test_forged_outcomes_of_a_call_take_no_room_from_what_its_worker_reports() -> None:
    mine = pending(CALL)
    handled, _ = without_surplus([*(pending(CALL, "forged", f"w{number}") for number in range(9)), mine])
    assert handled[-1] is mine


def test_copies_of_an_outcome_are_handled_with_it() -> None:
    handled, surplus = without_surplus([pending(CALL) for _ in range(9)])
    assert [len(item.copies) for item in handled] == [8] and not surplus


def test_of_one_call_a_few_outcomes_are_handled_and_no_message_is_lost() -> None:
    others = [pending(CALL, worker=f"w{number}") for number in range(9) for _ in range(2)]
    handled, surplus = without_surplus(others)
    assert len(handled) == 4
    assert len(surplus) + sum(1 + len(item.copies) for item in handled) == len(others)
