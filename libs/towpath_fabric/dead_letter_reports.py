"""Dead letters of services without a database: they report the message to the service that owns its stream.

A message is removed from its stream only after the owner has answered that it is stored; a crash in between means that
it is delivered and reported again.
"""

import base64
import hashlib
from typing import TYPE_CHECKING

from nats.aio.msg import Msg

from towpath_contracts.dead_letters import ReportDeadLetter
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.rpc import RpcMethod
from towpath_fabric.nats.pull_consumer import deliveries, nak, term
from towpath_fabric.telemetry.logs import Logger

if TYPE_CHECKING:
    from towpath_fabric.nats.bus import Bus

MAX_BODY = 700_000
"""Bytes of a message that fit a report; a longer message is stored truncated."""

WAIT_S = 2.0
"""How long to wait for the owner, and the first delay before redelivery if it doesn't answer; doubled each time."""

MAX_WAIT_S = 300.0


def delivery_number(message: Msg) -> int:
    """Return a number for a stored message: time and sequence, since a new broker counts its sequences from 1 again."""
    stored = message.metadata
    text = f"{stored.timestamp.isoformat()}:{stored.sequence.stream}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)


async def report_dead_letter(
    bus: "Bus",
    method: RpcMethod,
    stream: str,
    message: Msg,
    reason: str,
    log: Logger,
    *,
    tells: bool = True,
    subject: str = "",
) -> bool:
    """Report *message* to *method* and remove it from its stream; False where it was not stored: it is redelivered.

    *subject* is where to send the report if not to the method's own subject: workers use that of their toolset.
    *tells* is whether the run is notified: not where the message may have been forged.
    """
    report = ReportDeadLetter(
        stream=stream,
        subject=message.subject[:512],
        reason=reason[:2_000],
        body_base64=base64.b64encode(message.data[:MAX_BODY]).decode(),
        delivery=delivery_number(message),
        tells=tells,
    )
    try:
        await bus.request_subject(subject or method.subject, report, method.answer, timeout_s=WAIT_S)
    except ProblemError as error:
        why = f"{error.problem.code}: {error.problem.detail}"
        log.warning(
            "a dead letter could not be stored and stays in its stream",
            stream=stream,
            subject=message.subject,
            error=why,
        )
        await nak(message, min(WAIT_S * 2 ** min(deliveries(message) - 1, 10), MAX_WAIT_S))
        return False
    await term(message)
    return True
