"""Dead letters of services without a database: they report a message to the owner of its stream.

A message leaves its stream only when the owner has answered that it is kept.
"""

import base64
import hashlib

from nats.aio.msg import Msg

from towpath_contracts.dead_letters import ReportDead
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.rpc import Method
from towpath_fabric.nats.bus import Bus
from towpath_fabric.nats.pull_consumer import deliveries, nak, term
from towpath_fabric.telemetry.logs import Logger

MAX_BODY = 700_000
"""Bytes of a message that fit a report; what is longer is kept cut."""

WAIT_S = 2.0
"""How long an answer is waited for, and how soon a message comes again whose report nobody took; later every time."""

MAX_WAIT_S = 300.0


def delivery_number(message: Msg) -> int:
    """Name a stored message: a broker that starts anew counts its sequences from 1 again, but at another time."""
    stored = message.metadata
    text = f"{stored.timestamp.isoformat()}:{stored.sequence.stream}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)


async def report_dead(
    bus: Bus,
    method: Method,
    stream: str,
    message: Msg,
    reason: str,
    log: Logger,
    *,
    tells: bool = True,
    asked_on: str = "",
) -> bool:
    """Report *message* to *method* and take it out of its stream; False where nobody kept it, so that it comes again.

    *asked_on* is the subject to ask on where it is not the method's own: workers ask in the name of their toolset.
    *tells* says whether its run should hear of it: not where somebody else than its owner may have made it.
    """
    report = ReportDead(
        stream=stream,
        subject=message.subject[:512],
        reason=reason[:2_000],
        body_base64=base64.b64encode(message.data[:MAX_BODY]).decode(),
        delivery=delivery_number(message),
        tells=tells,
    )
    try:
        await bus.ask_subject(asked_on or method.subject, report, method.answer, timeout_s=WAIT_S)
    except ProblemError as error:
        why = f"{error.problem.code}: {error.problem.detail}"
        log.warning("nobody keeps a dead letter, it stays", stream=stream, subject=message.subject, error=why)
        await nak(message, min(WAIT_S * 2 ** min(deliveries(message) - 1, 10), MAX_WAIT_S))
        return False
    await term(message)
    return True
