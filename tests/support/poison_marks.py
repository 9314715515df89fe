"""Messages that come to a service as they come after deaths of its process."""

from typing import Any

import asyncpg
from nats.aio.msg import Msg
from tests.support.waiting import all_sent

from towpath_contracts.streams import ConsumerSpec
from towpath_fabric.dead_letter_reports import delivery_number
from towpath_fabric.nats.pull_consumer import deliveries, nak

DEATHS = 3
"""As TOWPATH_MAX_HANDLING_DEATHS is by default."""

UNREAD = DEATHS + 2
"""Deaths after which a message is refused without being read."""


async def deliver_unanswered(nc: Any, spec: ConsumerSpec, messages: int = 1, times: int = 2) -> list[Msg]:
    """Deliver the first *messages* of a stream *times* times or more, as to processes that ended; returns them.

    No more are asked for than come, so that none is on its way to nobody when this ends.
    """
    pulled = await nc.jetstream().pull_subscribe_bind(spec.durable, spec.stream)
    found: dict[int, Msg] = {}

    def first() -> list[Msg]:
        return [message for _, message in sorted(found.items())][:messages]

    while len(found) < messages or any(deliveries(message) < times for message in first()):
        for message in await pulled.fetch(messages, timeout=30):
            found[message.metadata.sequence.stream] = message
            await nak(message, 0)
        await all_sent(nc)
    await pulled.unsubscribe()
    return first()


async def accuse(
    dsn: str, message: Msg, deaths: int, *, table: str = "runs.handling_failure", number: int | None = None
) -> None:
    """Store that the process ended *deaths* times while it handled *message* alone."""
    failures = {"runs.handling_failure": ("failures, ", "0, ")}.get(table, ("", ""))
    mark = f"INSERT INTO {table} ({failures[0]}stream, sequence, deaths, last) VALUES ({failures[1]}$1, $2, $3, now())"
    connection = await asyncpg.connect(dsn)
    try:
        number = delivery_number(message) if number is None else number
        await connection.execute(mark, message.metadata.stream, number, deaths)
    finally:
        await connection.close()


async def letters(dsn: str) -> list[dict[str, Any]]:
    """Return all dead letters."""
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch("SELECT * FROM runs.dead_letter ORDER BY dead_letter_id")
    finally:
        await connection.close()
    return [dict(row) for row in rows]


def reason(deaths: int) -> str:
    """Return the reason of a letter of a message that ended so many processes."""
    return f"poison_message: handling it alone ended the process {deaths} times"
