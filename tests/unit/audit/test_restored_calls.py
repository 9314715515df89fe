"""A call of a restored database that waited may be unknown, and what people say of it needs no decision before it."""

from typing import Any

import pytest
from tests.unit.audit.test_verifier import ASKED, CALL, CLAIM, DONE, HELD, RUN, found, made

from towpath_audit import bundle

UNKNOWN = {"phase": "outcome", "verdict": "unknown"}


@pytest.mark.parametrize("waited", [ASKED, HELD])
@pytest.mark.parametrize(
    ("ends", "status", "faults"),
    [
        ([UNKNOWN], "unknown", []),
        ([UNKNOWN, {"phase": "settled", "verdict": "happened"}], "succeeded", []),
        ([UNKNOWN, {"phase": "outcome", "verdict": "failed"}], "failed", []),
        ([UNKNOWN, {"phase": "settled", "verdict": "retry"}, CLAIM, DONE], "succeeded", []),
        ([UNKNOWN, CLAIM], "started", ["effect_without_decision", "call_state_changed"]),
        ([UNKNOWN, DONE], "succeeded", ["effect_without_decision"]),
        ([CLAIM, UNKNOWN], "unknown", ["effect_without_decision"] * 3 + ["call_state_changed"]),
    ],
)
def test_a_call_that_waited_in_a_restored_database_may_be_unknown_and_nothing_more(
    waited: dict[str, Any], ends: list[dict[str, Any]], status: str, faults: list[str]
) -> None:
    effect = bundle.effect(run_id=RUN, execution_id=CALL, tool="t", status=status, last_entry=True)
    lines = made(*(dict(entry) for entry in (waited, *ends)), tail=(effect,))
    assert sorted(code for code, _ in found(lines)) == sorted(faults)


def test_a_call_of_which_nothing_is_known_is_not_unknown() -> None:
    assert found(made(dict(UNKNOWN))) == [("effect_without_decision", 0)]
