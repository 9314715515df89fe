"""Brings the broker's streams and consumers up to the version that is installed, and says what it changed.

For a deployment and for `towpath up`, not for a service. Only what contracts declare is compared: what an operator set
beside it, such as placement or compression, stays, and so does the number of copies unless another one is asked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nats.aio.client import Client
from nats.js.errors import APIError, NotFoundError

from towpath_contracts.base import JsonObject
from towpath_contracts.streams import CONSUMERS, STREAMS, ConsumerSpec, StreamSpec
from towpath_fabric.nats.streams import ask_broker, consumer_config, ensure_consumer, stream_config

COPIES = "num_replicas"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredStream:
    """A stream as it is now, and what was changed, such as `max_bytes 1 → 2`."""

    name: str
    replicas: int
    consumers: tuple[str, ...]
    changes: tuple[str, ...]


async def declare_streams(nc: Client, *, replicas: int | None = None) -> tuple[DeclaredStream, ...]:
    """Create what is missing and update what differs; with *replicas*, every stream gets so many copies.

    One that the server refuses does not keep the others from being declared; its APIError is raised last.
    """
    refused: APIError | None = None
    found: list[DeclaredStream] = []
    for stream in STREAMS:
        try:
            found.append(await _declare(nc, stream, replicas))
        except APIError as error:
            refused = refused or error
    if refused is not None:
        raise refused
    return tuple(found)


async def _declare(nc: Client, spec: StreamSpec, replicas: int | None) -> DeclaredStream:
    wanted = _declared(stream_config(spec, replicas or 1).as_dict())
    try:
        here = (await ask_broker(nc, f"STREAM.INFO.{spec.name}"))["config"]
    except NotFoundError:
        here = (await ask_broker(nc, f"STREAM.CREATE.{spec.name}", wanted))["config"]
        changes = ["created"]
    else:
        if replicas is None:
            wanted[COPIES] = here[COPIES]
        changes = _differences(here, wanted)
        if changes:
            here = (await ask_broker(nc, f"STREAM.UPDATE.{spec.name}", {**here, **wanted}))["config"]
    consumers = [one for one in CONSUMERS if one.stream == spec.name]
    for consumer in consumers:
        changes += await _declare_consumer(nc, consumer)
    names = tuple(one.durable for one in consumers)
    return DeclaredStream(name=spec.name, replicas=here[COPIES], consumers=names, changes=tuple(changes))


async def _declare_consumer(nc: Client, spec: ConsumerSpec) -> list[str]:
    wanted = _declared(consumer_config(spec).as_dict())
    try:
        here = (await ask_broker(nc, f"CONSUMER.INFO.{spec.stream}.{spec.durable}"))["config"]
    except NotFoundError:
        await ensure_consumer(nc, spec)
        return [f"{spec.durable} created"]
    changes = _differences(here, wanted)
    if changes:
        asked = {"stream_name": spec.stream, "config": {**here, **wanted}}
        await ask_broker(nc, f"CONSUMER.DURABLE.CREATE.{spec.stream}.{spec.durable}", asked)
    return [f"{spec.durable}: {change}" for change in changes]


def _declared(config: Mapping[str, Any]) -> JsonObject:
    return {name: value for name, value in config.items() if value is not None}


def _differences(here: JsonObject, wanted: JsonObject) -> list[str]:
    """Name what differs; the broker leaves out what is empty."""
    changed = {name: (here.get(name), value) for name, value in wanted.items() if here.get(name) != value}
    return [f"{name} {old} \u2192 {new}" for name, (old, new) in changed.items() if old or new]
