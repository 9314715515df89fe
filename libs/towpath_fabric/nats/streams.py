"""Creates and updates the broker's streams and consumers as they are declared in contracts.

It is idempotent and never deletes a stream, so a start loses no message.
"""

from collections.abc import Iterable
from uuid import UUID

from nats import errors as nats_errors
from nats.aio.client import Client
from nats.js import JetStreamContext, api
from nats.js.errors import APIError, NotFoundError

from towpath_contracts.streams import CONSUMERS, EVENTS_CONSUMER, STREAMS, ConsumerSpec, StreamSpec
from towpath_contracts.subjects import run_event

REQUEST_TIMEOUT_S = 2.0
"""How long the broker may take to answer."""


def stream_config(spec: StreamSpec) -> api.StreamConfig:
    return api.StreamConfig(
        name=spec.name,
        subjects=list(spec.subjects),
        retention=api.RetentionPolicy.WORK_QUEUE if spec.retention == "workqueue" else api.RetentionPolicy.LIMITS,
        discard=api.DiscardPolicy.NEW if spec.discard == "new" else api.DiscardPolicy.OLD,
        storage=api.StorageType.FILE,
        max_bytes=spec.max_bytes,
        max_age=spec.max_age_s,
        max_msgs=spec.max_msgs,
        max_msg_size=spec.max_msg_size,
        max_msgs_per_subject=spec.max_msgs_per_subject,
        allow_direct=spec.allow_direct,
        duplicate_window=spec.duplicate_window_s,
        num_replicas=1,
    )


def consumer_config(spec: ConsumerSpec) -> api.ConsumerConfig:
    return api.ConsumerConfig(
        durable_name=spec.durable,
        filter_subject=spec.filter_subject,
        ack_policy=api.AckPolicy.ALL if spec.ack_all else api.AckPolicy.EXPLICIT,
        ack_wait=spec.ack_wait_s,
        max_ack_pending=spec.max_ack_pending,
        max_deliver=-1,
        max_waiting=512,
    )


async def backlog(nc: Client, stream: str, durable: str) -> int | None:
    """Return how many messages of a consumer are pending; None where it is missing or the broker doesn't answer."""
    try:
        found = await nc.jetstream(timeout=REQUEST_TIMEOUT_S).consumer_info(stream, durable)
    except (TimeoutError, nats_errors.Error):
        return None
    return int(found.num_pending or 0)


async def purge_run_events(nc: Client, run_ids: Iterable[UUID]) -> None:
    """Take what is still told of these runs out of the stream of events; raises nats errors."""
    js = nc.jetstream(timeout=REQUEST_TIMEOUT_S)
    for run_id in run_ids:
        try:
            await js.purge_stream(EVENTS_CONSUMER.stream, subject=run_event(run_id))
        except NotFoundError:  # a broker that has lost its streams tells nothing of them
            return


async def ensure_stream(js: JetStreamContext, spec: StreamSpec) -> None:
    """Create the stream, or update it where it differs."""
    config = stream_config(spec)
    try:
        await js.update_stream(config)
    except NotFoundError:
        await js.add_stream(config)


async def ensure_consumer(nc: Client, spec: ConsumerSpec) -> None:
    """Create or update one durable consumer."""
    await nc.jetstream().add_consumer(spec.stream, consumer_config(spec))


async def ensure_streams(nc: Client, extra: tuple[ConsumerSpec, ...] = ()) -> None:
    """Create or update every stream and consumer; *extra* are those of pools and toolsets.

    One that the server refuses (a damaged file) does not keep the others from being declared; its error is raised last.
    """
    js = nc.jetstream(timeout=10)
    refused: APIError | None = None
    for stream in STREAMS:
        try:
            await ensure_stream(js, stream)
        except APIError as error:
            refused = refused or error
    for consumer in (*CONSUMERS, *extra):
        try:
            await ensure_consumer(nc, consumer)
        except APIError as error:
            refused = refused or error
    if refused is not None:
        raise refused
