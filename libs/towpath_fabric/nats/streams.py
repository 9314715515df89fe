"""Creates the broker's streams and consumers that are missing, as they are declared in contracts.

What is there stays as it is, so that a service that starts, or comes back after a node was lost, never takes back what
an operator set: copies of a stream that are made and given up again while the nodes of a cluster come and go keep the
broker busy for longer than the loss did. A deployment brings them up to date (`stream_declaration.py`).
"""

import json
from collections.abc import Iterable
from uuid import UUID

from nats import errors as nats_errors
from nats.aio.client import Client
from nats.js import JetStreamContext, api
from nats.js.errors import APIError, NotFoundError, ServiceUnavailableError

from towpath_contracts.base import JsonObject
from towpath_contracts.streams import CONSUMERS, EVENTS_CONSUMER, STREAMS, ConsumerSpec, StreamSpec
from towpath_contracts.subjects import run_event

REQUEST_TIMEOUT_S = 2.0
"""How long the broker may take to answer."""

DECLARE_S = 10.0
"""How long it may take to make a stream or a consumer."""

STREAM_EXISTS = 10058
CONSUMER_EXISTS = 10148
"""What the broker answers for one of this name that has another configuration."""


def stream_config(spec: StreamSpec, replicas: int = 1) -> api.StreamConfig:
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
        num_replicas=replicas,
    )


def consumer_config(spec: ConsumerSpec) -> api.ConsumerConfig:
    """Return the consumer as it is declared; it has as many copies as its stream."""
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


async def ensure_stream(js: JetStreamContext, spec: StreamSpec, replicas: int) -> None:
    """Create the stream where it is missing; one that is there keeps what an operator gave it."""
    try:
        await js.add_stream(stream_config(spec, replicas))
    except APIError as error:
        if error.err_code != STREAM_EXISTS:
            raise


async def ensure_consumer(nc: Client, spec: ConsumerSpec) -> None:
    """Create one durable consumer where it is missing."""
    asked = {"stream_name": spec.stream, "config": consumer_config(spec).as_dict(), "action": "create"}
    try:
        await ask_broker(nc, f"CONSUMER.DURABLE.CREATE.{spec.stream}.{spec.durable}", asked)
    except APIError as error:
        if error.err_code != CONSUMER_EXISTS:
            raise


async def ask_broker(nc: Client, method: str, body: JsonObject | None = None) -> JsonObject:
    """Ask JetStream's API and return its answer; raises APIError for a refusal, else what a request raises."""
    try:
        reply = await nc.request(f"$JS.API.{method}", json.dumps(body).encode() if body else b"", timeout=DECLARE_S)
    except nats_errors.NoRespondersError as error:
        raise ServiceUnavailableError from error
    answer: JsonObject = json.loads(reply.data)
    if "error" in answer:
        APIError.from_error(answer["error"])
    return answer


async def ensure_streams(nc: Client, extra: tuple[ConsumerSpec, ...] = (), *, replicas: int = 1) -> None:
    """Create every stream and consumer that is missing, streams with *replicas*; what is there is never changed.

    *extra* are the consumers of pools and toolsets. One that the server refuses (a damaged file) does not keep the
    others from being declared; its error is raised last.
    """
    js = nc.jetstream(timeout=DECLARE_S)
    refused: APIError | None = None
    for stream in STREAMS:
        try:
            await ensure_stream(js, stream, replicas)
        except APIError as error:
            refused = refused or error
    for consumer in (*CONSUMERS, *extra):
        try:
            await ensure_consumer(nc, consumer)
        except APIError as error:
            refused = refused or error
    if refused is not None:
        raise refused
