"""Worker processes as they say themselves that they are, the tools that they propose, and draining one.

A drained one takes no new calls. A worker says every BEAT_S seconds that it is there, for each toolset that it serves;
the answer tells it whether it is to take calls. So a drain is never lost with a message or a connection, and no worker
is asked for anything.
"""

import hashlib
from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from towpath_contracts.base import Message, MessagePart, Token
from towpath_contracts.tools.calls import ToolSpec

BEAT_S = 5.0
"""Between two words of a worker."""

GONE_S = 20.0
"""Who has not been heard of for so long is shown as gone."""

FORGOTTEN_S = 600.0
"""And after this time as nothing."""

MAX_INSTANCES = 256
"""Of one toolset: what one credential can fill."""

MAX_ASKED_RUNS = 1_000
"""Runs whose end one word asks for."""

MAX_LISTED = 1_000
"""Toolsets of processes in one answer."""

WorkerId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
"""Of one process from its start to its end; the next one on the same machine has another."""

_PROVED_AT, _PROVED = 12, "8"
"""Where a UUID has its version, and the one of values that are made in a way of one's own (RFC 9562)."""

WorkerState = Literal["taking", "draining", "drained", "gone"]


def proved_id(proof: str) -> str:
    """Return the id of the process that alone knows *proof*: who only knows the id can't speak for it."""
    digest = hashlib.sha256(proof.encode()).hexdigest()
    return f"{digest[:_PROVED_AT]}{_PROVED}{digest[13:16]}8{digest[17:32]}"


def is_proved(worker_id: str, proof: str) -> bool:
    """Return whether who knows *proof* may speak for *worker_id*: anybody for ids of processes that have no proof."""
    return worker_id[_PROVED_AT] != _PROVED or proved_id(proof) == worker_id


class WorkerBeat(Message):
    """Worker to TAS: this process serves the toolset; how many calls it runs, and of how many at once.

    `up_s` is how long it has run, since its clock may be wrong; `draining` says that it was told on its own machine to
    take no new calls, `idle` that a drained one has ended all, `ending` that its process ends now.
    `proof` is what the id was made of, which nobody else is told (`proved_id`). `runs` are those that it wants to know
    the end of.
    """

    project: Token
    toolset: Token
    worker_id: WorkerId
    name: Annotated[str, Field(max_length=256)]
    host: Annotated[str, Field(max_length=256)] = ""
    version: Annotated[str, Field(max_length=64)] = ""
    up_s: Annotated[float, Field(ge=0, le=1e9)] = 0.0
    slots: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    in_flight: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    idle: bool = False
    draining: Annotated[bool, Field(exclude_if=lambda draining: not draining)] = False
    ending: Annotated[bool, Field(exclude_if=lambda ending: not ending)] = False
    proof: Annotated[str, Field(max_length=128)] = ""
    runs: Annotated[tuple[UUID, ...], Field(max_length=MAX_ASKED_RUNS, exclude_if=lambda runs: not runs)] = ()


class WorkerHeard(Message):
    """The answer: with `drain` the process takes no new calls any more.

    `ended` are those of the runs it asked about that go on no longer, or are none of its project's.
    """

    drain: bool = False
    ended: Annotated[tuple[UUID, ...], Field(exclude_if=lambda runs: not runs)] = ()


class WorkerInstance(MessagePart):
    """One process of a worker. `calls` run in it, for all of its toolsets together; `slots` is how many may at once.

    `draining`: it takes no new calls. `drained`: and has ended those that it had. `gone`: it says nothing any more.
    """

    worker_id: str
    name: str
    toolsets: tuple[str, ...]
    host: str
    version: str
    state: WorkerState
    started_at: datetime
    heard_at: datetime
    calls: int
    slots: int
    drained_by: str = ""
    drained_at: datetime | None = None
    reason: str = ""


class ListWorkers(Message):
    """Gateway to TAS: the worker processes of a project."""

    project: Token


class WorkerList(Message):
    """Worker processes, those that started first before others; `left_out` of their toolsets did not fit the answer."""

    workers: tuple[WorkerInstance, ...]
    left_out: int = 0


class DrainWorker(Message):
    """Gateway to TAS: let this process take no new calls."""

    project: Token
    worker_id: WorkerId
    actor: str
    key_prefix: str = ""
    key_commitment: str = ""
    roles: tuple[str, ...] = ()
    reason: Annotated[str, Field(max_length=2_000)] = ""


class WorkerDrained(Message):
    """What was drained; `changed` is False where it was so already."""

    worker: WorkerInstance
    changed: bool


class RegisterTools(Message):
    """Worker to TAS: a proposal of tools."""

    toolset: Token
    worker: str
    owner: str
    tools: tuple[ToolSpec, ...]
    project: Token = "default"


class ToolRegistrationResult(MessagePart):
    """What became of one proposed tool."""

    name: str
    version: int
    digest: str
    status: Literal["accepted", "unchanged", "pending"]
    reason: str = ""


class ToolsRegistered(Message):
    """TAS's answer to a proposal, with the key that tickets are checked against.

    `now` is the platform's clock, by which tickets expire: a worker's own clock may be wrong. An older TAS says none.
    """

    standings: tuple[ToolRegistrationResult, ...]
    ticket_keys: dict[str, str]
    now: datetime | None = None
