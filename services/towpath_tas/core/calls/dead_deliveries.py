"""A delivery that its worker could not read: the call goes out again, and in the end it fails.

The ledger decides, not the worker. What was claimed may be running and is left alone; what has a newer attempt
is not spoken of any more. Of a pure call nobody knows whether it runs, and nothing is said about that.
"""

from towpath_contracts.tools.calls import CallStatus, EffectClass
from towpath_tas.core.calls.call import Call, Step
from towpath_tas.core.calls.ledger import MAX_ATTEMPTS, dispatch_next, fail

MAX_DEAD_DELIVERIES = 3
"""Dead deliveries of a call that end it: the worker understands none of its attempts."""

DID_NOT_HAPPEN = "Do it another way; the call did not happen."
MAY_HAVE_RUN = "Do it another way; it is not known whether the call ran, and it changes nothing outside if it did."


def on_dead_delivery(call: Call | None, attempt: int, toolset: str, reason: str, *, times: int) -> Step:
    """Return what a dead delivery of *attempt* makes of a call that went to *toolset*.

    *times* counts the dead deliveries of the call, this one included; attempts that ran out of time are none.
    """
    if call is None or call.toolset != toolset or call.attempt != attempt:
        return Step()
    if call.status is not CallStatus.PERMITTED or call.ever_claimed:
        return Step()
    if times >= MAX_DEAD_DELIVERIES or attempt >= MAX_ATTEMPTS:
        said = f"no worker of {toolset} can read the call: {reason}"
        pure = call.effect_class is EffectClass.PURE  # such calls start without a claim
        return fail(
            call, "dead_lettered", said, hint=MAY_HAVE_RUN if pure else DID_NOT_HAPPEN, began=None if pure else False
        )
    return dispatch_next(call, f"its delivery was a dead letter: {reason}")
