"""A call that its worker cut off in the middle has no known fate."""

import uuid

import pytest
from tests.support.tas.tas_calls import NOW, decision, outcome, permitted

from towpath_contracts.tools.calls import CallStatus, EffectClass, ToolFailure
from towpath_tas.core.authorization import AuthorizationDecision
from towpath_tas.core.authorization_query import AuthorizationQuery
from towpath_tas.core.call import StartClaim
from towpath_tas.core.calls.outcomes import on_outcome

CUT_OFF = ToolFailure(code="tool_timeout", message="it took too long", uncertain=True)


def allow(_: AuthorizationQuery) -> AuthorizationDecision:
    return decision()


@pytest.mark.parametrize(
    ("effect_class", "expected"),
    [
        (EffectClass.IRREVERSIBLE, CallStatus.UNKNOWN),
        (EffectClass.RECONCILABLE, CallStatus.UNKNOWN),
        (EffectClass.IDEMPOTENT, CallStatus.FAILED),
    ],
)
def test_a_timeout_in_the_middle_is_unknown_unless_the_call_may_run_again(
    effect_class: EffectClass, expected: CallStatus
) -> None:
    claim_id = uuid.uuid4()
    claim = StartClaim(claim_id=claim_id, attempt=1, worker="w1", granted=True)
    call = permitted(effect_class).next_revision(status=CallStatus.STARTED, claims=(claim,))
    change = on_outcome(call, outcome(call, claim_id, status="failed", failure=CUT_OFF), "", allow, now=NOW)
    assert change.call is not None
    assert change.call.status is expected
    again = on_outcome(change.call, outcome(call, claim_id, status="failed", failure=CUT_OFF), "", allow, now=NOW)
    assert again.call is None, "said twice, it changes nothing"
    late = on_outcome(change.call, outcome(call, claim_id), "", allow, now=NOW)
    assert (late.call is not None) == (expected is CallStatus.UNKNOWN), "the real result settles an unknown call"
