"""Settings of the tool-access service, in addition to those of every service."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AnyHttpUrl, Field, field_validator, model_validator

from towpath_contracts.tools.retention import MAX_KEEP_DAYS, MIN_KEEP_DAYS, EndedStatus
from towpath_fabric.settings import Settings

KeepDays = Annotated[int, Field(ge=0, le=MAX_KEEP_DAYS)]


class TasSettings(Settings):
    """Settings of one TAS replica; every replica is given the same."""

    database_pool: int = Field(default=6, ge=4)  # three loops keep one each
    """Three connections belong to the hot loops; the rest answer questions."""

    ticket_key_file: Path | None = None
    """The Ed25519 key that signs tickets, shared by all replicas."""

    ticket_life_s: int = 300
    """How long after its permission a call may start. Longer queues cost one more authorization, nothing else."""

    policy_file: Path | None = None
    """A matrix that is applied at start and whenever the file changes (the embedded platform)."""

    policy_project: str = "default"

    auth: Literal["auto", "on", "off"] = "auto"
    """Whether the gateway asks for keys. Where it does, workers of an embedded platform are no policy admins."""

    seal_key_file: Path | None = None
    """The Ed25519 key that signs the audit's checkpoints, shared by all replicas; embedded: beside the ticket key."""

    seal_other_keys: str = ""
    """Public keys besides the own, with commas between them, that may have signed checkpoints of this log: those of
    before for as long as such checkpoints are kept, and the next one while replicas are given it."""

    audit_origin: str = "towpath.local/audit"
    """The name of this platform's log; it stands in every checkpoint, so that none passes for another log's."""

    seal_every_s: float = 1.0
    """How long an entry of the audit waits for its leaf, about."""

    seal_idle_s: float = 300.0
    """After how long without an entry it is signed that there was none."""

    checkpoint_file: Path | None = None
    """A file that checkpoints are appended to; it belongs on another machine's disk."""

    checkpoint_url: str = ""
    """A witness that checkpoints are posted to."""

    single_person: bool = False
    """Whether who asked for a call or an erasure may approve it, as the audit says; on the embedded platform only."""

    @model_validator(mode="after")
    def _one_person_has_one_machine(self) -> "TasSettings":
        if self.single_person and not self.embedded:
            raise ValueError("TOWPATH_SINGLE_PERSON is for an embedded platform; elsewhere another person approves")
        return self

    @field_validator("checkpoint_url")
    @classmethod
    def _address(cls, value: str) -> str:
        if value:
            AnyHttpUrl(value)  # a mistake shows at start, not as a witness that is silent for ever
        return value

    checkpoint_every_s: float = 10.0
    """The least time between two checkpoints that are handed out."""

    audit_keep_days: int = 365
    """How long entries of the audit are kept; 0: for ever."""

    run_keep_days: int = Field(default=0, ge=0, le=MAX_KEEP_DAYS)
    """How long runs are kept after their end; 0: for ever. At least 7."""

    run_keep_days_by_status: dict[EndedStatus, KeepDays] = Field(default_factory=dict)
    """JSON: other periods for runs that ended with a status, such as {"failed": 90}."""

    run_keep_days_by_network: dict[str, KeepDays] = Field(default_factory=dict)
    """JSON: other periods for runs of a network, named alone for all projects, or as `project/network`. Where a status
    has one, too, the longer of both holds."""

    @field_validator("run_keep_days", "run_keep_days_by_status", "run_keep_days_by_network")
    @classmethod
    def _never_young(cls, given: int | dict[str, int]) -> int | dict[str, int]:
        if any(0 < days < MIN_KEEP_DAYS for days in (given.values() if isinstance(given, dict) else [given])):
            msg = f"runs are kept for at least {MIN_KEEP_DAYS} days, or with 0 for ever"
            raise ValueError(msg)
        return given

    erase_delay_h: float = Field(default=72.0, ge=0, le=8_760)
    """Hours after which whoever asked for an erasure may confirm it without another person."""

    agent_orchestrate_enabled: bool = True
    """Whether there is a tool `agent_orchestrate`: else no network with it is published and no call permitted."""

    batch_size: int = 256
    """Messages that one commit serves at most."""

    max_project_tools: int = Field(default=2_000, ge=1)
    """Tools of one project, with those that wait; a registration that would make more is refused."""

    max_project_tool_chars: int = Field(default=8_000_000, ge=1)
    """Characters of the definitions of these: every replica keeps them in memory."""

    cache_calls: int = 8_192
    """Open calls remembered between a message and the next, to save reading them; forgetting one costs a query."""
