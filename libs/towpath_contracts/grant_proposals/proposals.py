"""What a proposed grant looks like, and what services ask each other to make one from past runs.

A proposal is advice. A task that is submitted with it stands under it as under any grant: it takes rights away and
gives none, since the matrix decides about every call as well. Reasons may hold words of a model, which are untrusted
text wherever they are shown.
"""

import re
from collections.abc import Iterable
from typing import Any, Literal
from uuid import UUID

from pydantic import AwareDatetime, Field, field_validator

from towpath_contracts.base import ClientMessage, Message, MessagePart, Name
from towpath_contracts.networks.spec import NetworkSnapshot
from towpath_contracts.run_limits import MAX_VERSION
from towpath_contracts.runs.script_size import check_script
from towpath_contracts.tasks import GLOB, TaskGrantRule
from towpath_contracts.tools.calls import ToolSpec

MAX_ENTRIES = 256
"""Entries of a task's grant, as SubmitTask takes them."""

MIN_SHARE = 0.05
"""The share of runs that must have used a tool, unless another is asked for."""

APPLIED_BY_RUN = "the run itself applies it, and what it starts stands under the same grant"
"""Why an internal tool is in every proposal: withholding it protects nothing, and takes the run's plan and files."""

Source = Literal["network", "plan", "runs", "model"]


class ProposedGrantEntry(MessagePart):
    """One entry of a proposed grant with its reason; `runs` counts the runs that used the tool, where runs were read.

    With `said_by_model` the reason, and a condition, are a model's words.
    """

    tool: str
    operation: str = "*"
    when: str | None = None
    reason: str = ""
    agents: tuple[str, ...] = ()
    runs: int | None = None
    calls: int | None = None
    said_by_model: bool = False


class LeftOutTool(MessagePart):
    """A tool that is in no entry, and why: a task under the grant can't use it."""

    tool: str
    reason: str


class GrantProposal(Message):
    """A grant that somebody may submit a task with: `grant` as it is, `entries` with the reason of each.

    `runs` counts the runs that were read; unless `complete` there were more, and older ones were left out. `run_id` is
    the run in which a model was asked.
    """

    network: str
    version: int
    source: Source
    grant: tuple[TaskGrantRule, ...]
    entries: tuple[ProposedGrantEntry, ...]
    left_out: tuple[LeftOutTool, ...] = ()
    runs: int = 0
    complete: bool = True
    run_id: UUID | None = None
    model: str = ""


class GetGrantFromRuns(Message):
    """Asks which tools the completed runs of a network have used, as a grant for tasks of its current version.

    A tool that fewer than `min_share` of the runs used is left out. `label` (`key=value`) picks the runs that have it.
    With `tight` an entry is bound to the destinations that were the same in every call that was read.
    """

    project: str
    network: str
    since: AwareDatetime
    label: str | None = None
    min_share: float = Field(default=MIN_SHARE, ge=0, le=1)
    tight: bool = False


class CountUsedTools(Message):
    """Orchestrator to tool access: which tools the runs `runs` have used; each stands below the run in `roots`.

    `sinks` names arguments of tools, as pairs, whose value is returned where all calls gave the same.
    """

    project: str
    roots: tuple[UUID, ...]
    runs: tuple[UUID, ...]
    sinks: tuple[tuple[str, str], ...] = ()


class UsedTool(MessagePart):
    """A tool that runs have used: in how many of the roots, in how many calls that succeeded.

    `constants` are the asked-for arguments that were the same in each of these calls, as JSON text.
    """

    tool: str
    operation: str
    runs: int
    calls: int
    constants: dict[str, str] = Field(default_factory=dict)


class UsedTools(Message):
    """The tools that runs have used, those of most runs first."""

    tools: tuple[UsedTool, ...]


class GrantQuestion(ClientMessage):
    """A task for which a model is to name the tools: what the task says, and never what it quotes.

    `model` answers in place of the network's own; `script` is played in place of a model. The answer comes from a run
    of its own, so the same `idempotency_key` and question wait for the same run.
    """

    network: Name
    user_message: str = Field(min_length=1, max_length=100_000)
    version: int | None = Field(default=None, ge=1, le=MAX_VERSION)
    model: str | None = Field(default=None, max_length=256)
    script: tuple[Any, ...] | None = Field(default=None, max_length=16)
    idempotency_key: str | None = Field(default=None, min_length=1, max_length=255)

    _script = field_validator("script")(check_script)


def proposal_of(
    snapshot: NetworkSnapshot,
    version: int,
    source: Source,
    entries: Iterable[ProposedGrantEntry],
    **more: Any,
) -> GrantProposal:
    """Return the proposal that has *entries*, in their order."""
    kept = tuple(entries)
    return GrantProposal.model_validate(
        {
            "network": snapshot.network,
            "version": version,
            "source": source,
            "grant": tuple(TaskGrantRule(tool=one.tool, operation=one.operation, when=one.when) for one in kept),
            "entries": kept,
            **more,
        }
    )


def operation_of(spec: ToolSpec) -> str:
    """Return the operation that an entry for *spec* names; its only one as a pattern, where it can't be written."""
    plain = re.match(GLOB, spec.operation) is not None and not set(spec.operation) & set("*?[")
    return spec.operation if plain else "*"


def internal_entries(snapshot: NetworkSnapshot, tools: Iterable[str]) -> list[ProposedGrantEntry]:
    """Return an entry for each of *tools* that the run machine applies by itself."""
    return [
        ProposedGrantEntry(tool=name, operation=operation_of(snapshot.tools[name]), reason=APPLIED_BY_RUN)
        for name in sorted(set(tools))
        if snapshot.tools[name].internal
    ]
