"""The matrix over time: versions, single rules, what a change would have done, the shadow, figures.

A diff and a report are made in pieces that can be merged, so that nobody holds a month of calls in memory, and a
piece says what it left out. Every time is inclusive at its beginning.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import AwareDatetime, Field

from towpath_contracts.base import JsonObject, Message, MessagePart
from towpath_contracts.tools.access import PolicyApplied

Verdict = Literal["allow", "deny", "require_approval"]
Change = Literal["newly_denied", "newly_allowed", "newly_gated"]
Dimension = Literal["tool", "operation", "agent", "network", "caller", "rule"]

MAX_POLICY_CHARS = 1_000_000
"""A matrix as text; NATS carries no more in one message."""

MAX_EXAMPLES = 3
"""Calls named for each kind of difference; more of the same tell nothing new."""

MAX_EXAMPLES_AT_ONCE = 1_000
"""Calls named in one piece of a diff, so that it fits into one message; later groups are given by their numbers."""


class ListPolicyVersions(Message):
    """The versions of the matrix, newest first; `before` pages backwards."""

    project: str
    before: int | None = None
    limit: int = Field(default=50, ge=1, le=500)


class PolicyVersion(MessagePart):
    """One version: who applied it, when, from where and why."""

    version: int
    digest: str
    rules: int
    source: str = ""
    note: str = ""
    applied_by: str = ""
    applied_at: datetime | None = None


class PolicyVersions(Message):
    """A page of versions; `current` is the one in force."""

    current: int
    versions: tuple[PolicyVersion, ...]
    next_before: int | None = None


class RuleChange(MessagePart):
    """What one version did to one rule; `fields` are the members that differ where it was altered."""

    name: str
    change: Literal["added", "removed", "altered"]
    fields: tuple[str, ...] = ()
    before: JsonObject | None = None
    after: JsonObject | None = None


class PolicyChangeLogEntry(PolicyVersion):
    """A version and what it changed against the one before; `more` counts changes that are not listed."""

    changes: tuple[RuleChange, ...] = ()
    more: int = 0


class PolicyChangeLog(Message):
    """The permission change log, newest first."""

    changes: tuple[PolicyChangeLogEntry, ...]
    next_before: int | None = None


class RollBackPolicy(Message):
    """Make version `version` the newest again, as a new version; `if_version` is the one that must be in force."""

    project: str
    actor: str
    key_prefix: str = ""
    key_commitment: str = ""
    version: int = Field(ge=1)
    note: str = ""
    if_version: int | None = None
    dry_run: bool = False


class ChangeRule(Message):
    """Put one rule into the matrix or, with `rule` None, take it out; the result is a new version."""

    project: str
    actor: str
    key_prefix: str = ""
    key_commitment: str = ""
    name: str
    rule: JsonObject | None = None
    note: str = ""
    if_version: int | None = None
    dry_run: bool = False


class RuleChanged(PolicyApplied):
    """The version now in force; `rewritten` says that the list of rules was written anew, without its comments."""

    rewritten: bool = False


class DiffPolicy(Message):
    """How would this matrix have decided recorded calls? `after` and `last` come from the piece before."""

    project: str
    text: str = Field(max_length=MAX_POLICY_CHARS)
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    after: int | None = None
    last: int | None = None
    limit: int = Field(default=2_000, ge=1, le=5_000)


class DiffExample(MessagePart):
    """One call that would have been decided otherwise."""

    run_id: UUID
    execution_id: UUID
    at: datetime
    version_then: int
    rule_then: str | None = None
    rule_now: str | None = None


class DiffGroup(MessagePart):
    """Calls of one agent and one tool that would have been decided otherwise in the same way."""

    change: Change
    was: Verdict
    network: str
    agent_key: str
    tool: str
    calls: int
    examples: tuple[DiffExample, ...] = ()

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """What makes two groups the same one."""
        return (self.change, self.was, self.network, self.agent_key, self.tool)


class PolicyImpact(Message):
    """A piece of a diff, or the whole of it once merged.

    `calls` were weighed. `left_out` counts, by reason, calls whose recorded decision was not the matrix's: another
    matrix would not have changed it. `next_after` is None in the last piece. Limits are never replayed.
    """

    version: int
    calls: int
    groups: tuple[DiffGroup, ...]
    left_out: dict[str, int] = Field(default_factory=dict)
    limits: str = "not replayed"
    next_after: int | None = None
    last: int = 0


class DiffPermissions(Message):
    """Asks which cells of the matrix, agents beside tools, would change under this one."""

    project: str
    text: str = Field(max_length=MAX_POLICY_CHARS)


class PermissionChange(MessagePart):
    """One agent and one tool of which another matrix says something else, or the same by other rules.

    `was` and `becomes` are the verdicts that a call may get: several where arguments decide. Of very many rules
    `more_then` and `more_now` are not named.
    """

    network: str
    agent_key: str
    tool: str
    was: tuple[str, ...]
    becomes: tuple[str, ...]
    rules_then: tuple[str, ...] = ()
    rules_now: tuple[str, ...] = ()
    more_then: int = 0
    more_now: int = 0


class PermissionsDiff(Message):
    """The cells that would change, of the agents of published networks.

    `more` of them are not listed; `left_out` networks were not looked at, since that took too long.
    """

    version: int
    agents: int
    changes: tuple[PermissionChange, ...]
    more: int = 0
    left_out: int = 0


class SetShadow(Message):
    """Weigh live calls by a second matrix beside the one in force; without text, stop that."""

    project: str
    actor: str
    text: str | None = Field(default=None, max_length=MAX_POLICY_CHARS)
    source: str = ""
    note: str = ""


class GetShadow(Message):
    """Asks where the shadow policy and the matrix in force disagreed since the shadow was set."""

    project: str


class ShadowView(Message):
    """The shadow and its divergences, grouped as in a diff; `more` says that older ones were not counted."""

    on: bool
    digest: str = ""
    rules: int = 0
    source: str = ""
    note: str = ""
    set_by: str = ""
    set_at: datetime | None = None
    divergences: int = 0
    groups: tuple[DiffGroup, ...] = ()
    more: bool = False


class GetToolCallStatistics(Message):
    """Asks for counts of verdicts and outcomes of tool calls in a window (the last day, unless given)."""

    project: str
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    by: tuple[Dimension, ...] = ("tool",)


class ToolCallCounts(MessagePart):
    """Counts of one group, and its rates (None where nothing was counted).

    A denial is one by the matrix or before it; `refused` and `expired` are approvals that people did not give.
    """

    key: dict[str, str] = Field(default_factory=dict)
    allowed: int = 0
    denied: int = 0
    gated: int = 0
    approved: int = 0
    refused: int = 0
    expired: int = 0
    succeeded: int = 0
    failed: int = 0
    unknown: int = 0
    void: int = 0
    denial_rate: float | None = None
    success_rate: float | None = None


class ToolCallStatistics(Message):
    """Figures by group, largest first, and of the whole project.

    `complete` is False where the window held more entries than are counted at once: then `since` says from when on.
    """

    since: datetime
    until: datetime
    by: tuple[str, ...]
    total: ToolCallCounts
    rows: tuple[ToolCallCounts, ...]
    complete: bool = True


def merge_groups(groups: Iterable[DiffGroup], examples: int = MAX_EXAMPLES) -> tuple[DiffGroup, ...]:
    """Return *groups* with the same key as one, largest first; the first *examples* of each are kept."""
    merged: dict[tuple[str, str, str, str, str], DiffGroup] = {}
    for group in groups:
        known = merged.get(group.key)
        if known is None:
            merged[group.key] = group.model_copy(update={"examples": group.examples[:examples]})
        else:
            kept = (*known.examples, *group.examples)[:examples]
            merged[group.key] = known.model_copy(update={"calls": known.calls + group.calls, "examples": kept})
    return tuple(sorted(merged.values(), key=lambda group: (-group.calls, group.key)))


def merge_diffs(pieces: Iterable[PolicyImpact]) -> PolicyImpact:
    """Return the whole of which *pieces* are all, in order; raises ValueError where there is none."""
    pages = list(pieces)
    if not pages:
        msg = "a diff has at least one piece"
        raise ValueError(msg)
    left_out: dict[str, int] = {}
    for page in pages:
        for reason, calls in page.left_out.items():
            left_out[reason] = left_out.get(reason, 0) + calls
    return pages[-1].model_copy(
        update={
            "calls": sum(page.calls for page in pages),
            "groups": merge_groups(group for page in pages for group in page.groups),
            "left_out": left_out,
        }
    )
