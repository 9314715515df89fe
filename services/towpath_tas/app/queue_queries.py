"""What the broker says of queues: those of a project's toolsets, and for who operates the platform the shared ones.

Nothing is kept: the broker is asked anew, about a bounded number of queues and a few at a time. It is asked by this
service since it knows which toolsets a project has, and may ask about consumers anyhow.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

from nats import errors as nats_errors
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.errors import APIError

from towpath_contracts.streams import CONSUMERS, STREAMS, ConsumerSpec, StreamSpec, decide_consumer, exec_consumer
from towpath_contracts.subjects import DEFAULT_POOL
from towpath_contracts.tools.internal_tools import PLATFORM_OWNER
from towpath_contracts.tools.queues import MAX_TOOLSETS, ListQueues, QueueList, QueueState, StreamFill
from towpath_fabric.turns.work_turns import WorkTurns
from towpath_tas.app.policy_cache import PolicyCache
from towpath_tas.app.worker_instances import WORKERS

AT_ONCE = 8
"""Questions to the broker under way for one answer."""

BROKER_WAIT_S = 2.0

NOT_BEGUN_S = 4.0
"""For how long a call has been there that counts as not begun: a worker that is just started again needs some time."""

WAIT_S = 4.0
"""How long a request waits for its turn."""

PLATFORM_CONSUMERS = (*CONSUMERS, decide_consumer(DEFAULT_POOL))


def queue_turns() -> WorkTurns:
    """Return the turns of projects at asking about queues."""
    return WorkTurns(2, lambda _: 1, WAIT_S)


class QueueQueries:
    """Answers which queues there are, and how long they are."""

    def __init__(self, pool: Any, nc: Client, policy_cache: PolicyCache) -> None:
        self._pool = pool
        self._nc = nc
        self._policy_cache = policy_cache

    async def list_queues(self, request: ListQueues) -> QueueList:
        """Return the queues of the project's toolsets, or what is asked for of these; the shared ones if asked."""
        bundle = await self._policy_cache.current(self._pool, request.project)
        tools = bundle.registry.tools.values()
        known = {one.spec.toolset for one in tools if one.owner != PLATFORM_OWNER and not one.spec.internal}
        known &= {request.toolset} if request.toolset is not None else known
        if request.run_id is not None:
            rows = await self._pool.fetch(WORKERS.toolsets_not_begun, request.run_id, request.project, NOT_BEGUN_S)
            known &= {row["toolset"] for row in rows}
        toolsets = sorted(known)
        wanted = [(exec_consumer(request.project, toolset), toolset) for toolset in toolsets[:MAX_TOOLSETS]]
        if request.platform:
            wanted += [(consumer, "") for consumer in PLATFORM_CONSUMERS]
        return QueueList(
            queues=await self._queues(wanted),
            streams=await self._fills() if request.platform else (),
            left_out=max(0, len(toolsets) - MAX_TOOLSETS),
        )

    async def _queues(self, wanted: Iterable[tuple[ConsumerSpec, str]]) -> tuple[QueueState, ...]:
        js, room = self._nc.jetstream(timeout=BROKER_WAIT_S), asyncio.Semaphore(AT_ONCE)

        async def ask(consumer: ConsumerSpec, toolset: str) -> QueueState:
            async with room:
                return await _queue(js, consumer, toolset)

        return tuple(await asyncio.gather(*(ask(consumer, toolset) for consumer, toolset in wanted)))

    async def _fills(self) -> tuple[StreamFill, ...]:
        js = self._nc.jetstream(timeout=BROKER_WAIT_S)
        found = await asyncio.gather(*(_fill(js, stream) for stream in STREAMS))
        return tuple(fill for fill in found if fill is not None)


async def _queue(js: JetStreamContext, consumer: ConsumerSpec, toolset: str) -> QueueState:
    place = {"stream": consumer.stream, "consumer": consumer.durable, "toolset": toolset}
    try:
        found = await js.consumer_info(consumer.stream, consumer.durable)
    except (TimeoutError, APIError, nats_errors.Error):
        return QueueState(**place, missing=True)
    return QueueState(
        **place,
        waits=found.num_pending or 0,
        in_flight=found.num_ack_pending or 0,
        redelivered=found.num_redelivered or 0,
        listeners=found.num_waiting or 0,
        last_taken_at=found.delivered.last_active if found.delivered else None,
    )


async def _fill(js: JetStreamContext, stream: StreamSpec) -> StreamFill | None:
    try:
        found = await js.stream_info(stream.name)
    except (TimeoutError, APIError, nats_errors.Error):
        return None
    return StreamFill(
        stream=stream.name,
        messages=found.state.messages,
        bytes=found.state.bytes,
        max_bytes=stream.max_bytes,
        discard=stream.discard,
    )
