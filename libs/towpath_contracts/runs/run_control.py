"""Steering a run from outside: a person pauses it, lets it go on, gives it a note, or puts a gate on it.

Whoever steers is named in the audit before it takes effect, and in the log of the run. An act is done once, however
often it is delivered: `act_id` names it.
"""

from typing import Literal
from uuid import UUID

from pydantic import Field

from towpath_contracts.base import ClientMessage, Message
from towpath_contracts.runs.fact_base import FactBase
from towpath_contracts.switches import PAUSED

RUN_PAUSED = "run_paused"
"""The type of the gate behind which a paused run waits; only a resume opens it."""

NO_QUESTIONS = frozenset({PAUSED, RUN_PAUSED})
"""Types of gates at which nobody is asked anything: only a resume opens them."""

RESUMED = "resumed"
"""The verdict with which it closes."""

MANUAL = "manual"
"""The type of a gate that a person puts on a run."""

STEERING_CHARS = 2_000
"""The longest note or reason."""

MAX_HOLDS = 16
"""Open gates that people have put on one run, and as many pauses of it: each is a part of the run's state."""

SteeringAct = Literal["pause", "resume", "note", "gate", "confidence"]


class RunSteeredFact(FactBase):
    """A person steers the run. `act_id` is time-ordered (UUIDv7); `pause_id` is that of the pause of the run above."""

    type: Literal["run.steered"] = "run.steered"
    act: Literal["pause", "note", "gate", "confidence"]
    act_id: UUID
    by: str
    text: str = Field(default="", max_length=STEERING_CHARS)
    pause_id: UUID | None = None


class SteerRun(Message):
    """Steer a run of `project`; `text` is the note, or why. The key is the one that was checked."""

    project: str
    run_id: UUID
    act: SteeringAct
    text: str = Field(default="", max_length=STEERING_CHARS)
    actor: str
    key_prefix: str = ""
    key_commitment: str = ""


class ClientSteerRun(ClientMessage):
    """`task.pause.<caller>`, and of `resume`, `gate` and `confidence`: the run, and why; it stands in the record."""

    run_id: UUID
    reason: str = Field(default="", max_length=STEERING_CHARS)


class ClientGiveNote(ClientMessage):
    """`task.note.<caller>`: the run, and what its model is told."""

    run_id: UUID
    text: str = Field(min_length=1, max_length=STEERING_CHARS)


class RunSteered(Message):
    """Reply to SteerRun: what was done, in how many runs (that one and those below it), and the gate that is open."""

    detail: str = ""
    runs: int = 1
    gate_id: UUID | None = None
