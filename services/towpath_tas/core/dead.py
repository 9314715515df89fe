"""A delivery that its worker could not read: the call goes out again, and in the end it fails (design §6).

Law: the ledger decides, not the worker. What was claimed may be running and is left alone; what has a newer attempt
is not spoken of any more.
"""

from towpath_contracts.tools import CallStatus
from towpath_tas.core.call import Call, Step
from towpath_tas.core.ledger import dispatch_next, fail

MAX_DEAD_ATTEMPTS = 3
"""Attempts of a call after which a dead delivery ends it: the worker understands none of them."""


def on_dead_delivery(call: Call | None, attempt: int, toolset: str, reason: str) -> Step:
    """Return what a dead delivery of *attempt* makes of a call that went to *toolset*."""
    if call is None or call.toolset != toolset or call.attempt != attempt:
        return Step()
    if call.status is not CallStatus.PERMITTED or call.ever_claimed:
        return Step()
    if attempt >= MAX_DEAD_ATTEMPTS:
        said = f"no worker of {toolset} can read the call: {reason}"
        return fail(call, "dead_lettered", said, hint="Do it another way; the call did not happen.")
    return dispatch_next(call, f"its delivery was a dead letter: {reason}")
