"""Reads `tool.outcome` messages of one batch, as far as something vouches for them.

A worker may send anything. What is read becomes objects of Python on the loop that all decisions share, and a result of
some ten thousand empty lists takes a tenth of a second. So of a message of some length first the fields beside its
result are read, and the rest only where its ticket is good and few others of its call came with it. One that is too
long for what an honest worker sends, or long without a good ticket in its header, is not read at all.

A result that is nested deeper than others read is no result: the fact that tells the run of it would be refused each
time, and the call asked about until the end of its run. So the call fails with a code of its own, as at a worker.
"""

from collections import defaultdict
from typing import Any, NamedTuple
from uuid import UUID

from nats.aio.msg import Msg
from pydantic import Field, ValidationError

from towpath_contracts.problems.input_faults import describe_validation_error
from towpath_contracts.rpc import OUTCOME_HEADER
from towpath_contracts.strict_json import MAX_VALUE_DEPTH, is_deeper
from towpath_contracts.tools.calls import ToolFailure, ToolOutcome
from towpath_fabric.tickets import TicketRefusedError
from towpath_tas.app.calls.dispatcher import TicketIssuer

MAX_OUTCOME_BYTES = 512 * 1024
"""A result of 64 KiB, and changes of a thousand files with 128 KiB of names: a larger result travels as a blob."""

MAX_UNNAMED_BYTES = 96 * 1024
"""Without changes; a longer message names its ticket in its header, as workers do with every one."""

READ_AT_ONCE = 4 * 1024
"""A shorter message is read whole whatever vouches for it: that takes a millisecond."""

MAX_OF_CALL = 4
"""Different outcomes of one call that are handled in one batch, each by statements of its own."""

UNREAD = "unread\0"
"""A name that no field of an honest message has."""

TOO_DEEP = ToolFailure(
    code="result_too_deep",
    message=f"the tool has ended, but its result can't be taken: it has more than {MAX_VALUE_DEPTH} levels of nesting",
    hint="Don't make the same call again: what it does may be done already.",
)


class OutcomeHead(ToolOutcome):
    """An outcome without its result and its changes, which nobody looks at where its ticket is not good."""

    result: None = Field(default=None, validation_alias=UNREAD)
    changes: tuple[()] = Field(default=(), validation_alias=UNREAD + UNREAD)


class ReadOutcome(NamedTuple):
    """An outcome, and what is wrong with its ticket, if anything."""

    outcome: ToolOutcome
    fault: str


class OutcomeFault(NamedTuple):
    """Why a message is no outcome; `is_unread`: nothing but its header may be looked at."""

    reason: str
    is_unread: bool = False


class OutcomeReader:
    """Reads the messages of one batch."""

    def __init__(self, tickets: TicketIssuer) -> None:
        self._tickets = tickets
        self._whole: defaultdict[UUID, dict[bytes, ToolOutcome]] = defaultdict(dict)

    def read(self, message: Msg) -> ReadOutcome | OutcomeFault:
        """Return the outcome that *message* is, or why it is none."""
        size = len(message.data)
        if size > MAX_OUTCOME_BYTES:
            return OutcomeFault(f"an outcome of {size} bytes; results of more than 64 KiB are blobs", is_unread=True)
        if size > MAX_UNNAMED_BYTES and not self._is_named(message):
            return OutcomeFault(f"an outcome of {size} bytes without a good ticket in its header", is_unread=True)
        try:
            if size <= READ_AT_ONCE:
                outcome = _whole(message.data)
                return ReadOutcome(outcome, self._fault(outcome))
            head = OutcomeHead.model_validate_json(message.data)
            fault = self._fault(head)
            return ReadOutcome(head if fault else self._whole_outcome(head, message.data), fault)
        except ValidationError as error:
            return OutcomeFault(f"not a tool outcome: {describe_validation_error(error)}")

    def _whole_outcome(self, head: OutcomeHead, data: bytes) -> ToolOutcome:
        """Return the outcome; only its head where as many of its call came before it as are handled in a batch."""
        known = self._whole[head.execution_id]
        if data not in known:
            if len(known) >= MAX_OF_CALL:
                return head
            known[data] = _whole(data)
        return known[data]

    def _is_named(self, message: Msg) -> bool:
        _, _, ticket = (message.headers or {}).get(OUTCOME_HEADER, "").partition(" ")
        try:
            self._tickets.read(ticket)
        except TicketRefusedError:
            return False
        return True

    def _fault(self, outcome: ToolOutcome) -> str:
        return self._tickets.fault(
            outcome.ticket, outcome.execution_id, outcome.attempt, outcome.run_id, at_start=False
        )


def _whole(data: bytes) -> ToolOutcome:
    """Read an outcome; one whose result is nested too deep is that of a failed call."""
    outcome = ToolOutcome.model_validate_json(data)
    if not is_deeper(data, MAX_VALUE_DEPTH + 1):  # one level is the message itself, and its other fields are flat
        return outcome
    told: dict[str, Any] = {"result": None, "result_digest": None, "blob": False, "preview": None}
    told |= {"changes": (), "changes_lost": None}
    if outcome.status == "succeeded":
        told |= {"status": "failed", "failure": TOO_DEEP}
    return outcome.model_copy(update=told)
