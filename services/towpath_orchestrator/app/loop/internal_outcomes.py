"""Telling the ledger what came of a call that a run has applied itself.

Every such row ends. What the ledger can't take as it is, it gets without its contents: they are in the run's log.
"""

from towpath_contracts.canonical import canonical_json, digest_text
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.rpc import RECORD_OUTCOME
from towpath_contracts.tools.internal_outcomes import InternalOutcome, RecordOutcome
from towpath_fabric.ports import Wire

NEVER = frozenset({"request_too_large", "request_invalid", "request_malformed"})
"""What no repeat of the same request makes good."""


async def tell_outcome(bus: Wire, request: RecordOutcome) -> InternalOutcome | None:
    """Tell the ledger an outcome; None where nobody took it, so that it has to be told again."""
    try:
        return await _ask(bus, request)
    except ProblemError as error:
        if error.problem.code not in NEVER:
            return None
    try:
        return await _ask(bus, bare(request))
    except ProblemError:
        return None


def bare(request: RecordOutcome) -> RecordOutcome:
    """Return *request* with size and digest in the place of a result, and a failure by its code alone."""
    if request.failure is not None:
        return request.model_copy(update={"failure": request.failure.model_copy(update={"message": "", "hint": ""})})
    text = canonical_json(request.result)
    size = len(text.encode("utf-8", "surrogatepass"))
    return request.model_copy(update={"result": {"left_out": True, "bytes": size, "digest": digest_text(text)}})


async def _ask(bus: Wire, request: RecordOutcome) -> InternalOutcome:
    answer: InternalOutcome = await bus.ask(RECORD_OUTCOME, request)
    return answer
