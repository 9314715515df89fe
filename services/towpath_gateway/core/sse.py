"""Server-sent events as text (WHATWG HTML, 9.2).

`id` is the seq of the event; in the stream of a tree it says how far each run was sent. So a client that reconnects
with Last-Event-ID misses nothing and gets nothing twice.
"""

from uuid import UUID

from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import canonical_json
from towpath_contracts.events.log import LogEntry
from towpath_readings.stream.deltas import DeltaEvent
from towpath_readings.stream.live import StreamEvent

RETRY_MS = 2_000
"""How long a client waits before it reconnects after a drop."""

BYE_RETRY_MS = 500
"""The same when this gateway is being replaced: another one is there already."""

PING = b": ping\n\n"
RETRY = f"retry: {RETRY_MS}\n\n".encode()
BYE = f"event: bye\nretry: {BYE_RETRY_MS}\ndata: {{}}\n\n".encode()


def entry_frame(entry: LogEntry, name: str) -> bytes:
    """Return the frame of one event under its id; JSON text holds no raw line break, so one data line is enough."""
    return f"id: {name}\nevent: {entry.event.type}\ndata: {entry.model_dump_json()}\n\n".encode()


def typed_frame(item: StreamEvent, name: str) -> bytes:
    """Return the frame of one typed event under its id."""
    return f"id: {name}\nevent: {item.type}\ndata: {item.model_dump_json()}\n\n".encode()


def delta_frame(piece: DeltaEvent) -> bytes:
    """Return the frame of a piece of a model's text; without an id, since it is never sent again."""
    return f"event: {piece.type}\ndata: {piece.model_dump_json()}\n\n".encode()


def end_frame(run_id: UUID, status: str, seq: int) -> bytes:
    """Return the last frame of a run that has ended: the client need not come back."""
    return _named("end", {"run_id": str(run_id), "status": status, "seq": seq})


def problem_frame(body: JsonObject) -> bytes:
    """Return the frame that ends a stream which can't go on."""
    return _named("problem", body)


def _named(name: str, body: JsonObject) -> bytes:
    return f"event: {name}\ndata: {canonical_json(body)}\n\n".encode()
