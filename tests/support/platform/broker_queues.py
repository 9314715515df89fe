"""What the broker's streams hold, as the broker itself counts it; asked as `deploy`, who may ask for all of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import nats
from nats.js.client import JetStreamContext

from towpath_embedded.platform import Platform

TIMEOUT_S = 30


async def queued_messages(platform: Platform) -> dict[str, int]:
    """Return how many messages each stream holds; raises OSError or nats.errors.Error where the broker is away."""
    async with _jetstream(platform) as js:
        return {one.config.name or "": one.state.messages for one in await js.streams_info()}


async def unacknowledged_messages(platform: Platform) -> dict[str, int]:
    """Return how many messages were delivered and not acknowledged, by stream; raises as `queued_messages`."""
    async with _jetstream(platform) as js:
        names = [one.config.name or "" for one in await js.streams_info()]
        return {name: sum(one.num_ack_pending or 0 for one in await js.consumers_info(name)) for name in names}


@asynccontextmanager
async def _jetstream(platform: Platform) -> AsyncIterator[JetStreamContext]:
    connection = await nats.connect(
        platform.nats_url_of("deploy"), inbox_prefix=b"_INBOX_deploy", connect_timeout=TIMEOUT_S, allow_reconnect=False
    )
    try:
        yield connection.jetstream(timeout=TIMEOUT_S)
    finally:
        await connection.close()
