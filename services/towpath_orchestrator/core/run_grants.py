"""Grants from past runs: which of the tools that completed runs have used a task may use again.

What rarely happened is left out, and so is what the network has no more: a grant names only tools of the version that a
task would run on. A run in which an attack succeeded counts like any other, so a share says how many did the same.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from towpath_contracts.grant_proposals.proposals import (
    GetGrantFromRuns,
    GrantProposal,
    LeftOutTool,
    ProposedGrantEntry,
    UsedTool,
    UsedTools,
    internal_entries,
    operation_of,
    proposal_of,
)
from towpath_contracts.networks.spec import NetworkSnapshot
from towpath_contracts.problems.registry import ProblemError, problem

TIGHT_CALLS = 3
"""Calls with the same destination before it is taken for the only one."""

MAX_CONDITION = 1_024
"""Characters of a condition, as a task's grant takes them."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = frozenset(
    {
        *("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop"),
        *("namespace", "null", "package", "return", "true", "var", "void", "while"),
    }
)
"""Words of CEL that can't stand behind a dot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedRuns:
    """Completed runs: their roots, and every run below with its root; not `complete` where there were more."""

    roots: tuple[UUID, ...]
    pairs: tuple[tuple[UUID, UUID], ...]
    complete: bool


def destinations(snapshot: NetworkSnapshot) -> tuple[tuple[str, str], ...]:
    """Return the arguments, tool by tool, that are declared as sinks and that a condition can name."""
    return tuple(
        (spec.name, sink)
        for spec in snapshot.tools.values()
        for sink in spec.sinks or ()
        if _NAME.fullmatch(sink) and sink not in _RESERVED
    )


def grant_of_runs(
    asked: GetGrantFromRuns, snapshot: NetworkSnapshot, version: int, read: CompletedRuns, used: UsedTools
) -> GrantProposal:
    """Return the grant of what *used* says that the runs in *read* have used; raises ProblemError where there is none.

    Nothing was read is no reason to grant nothing: a task that can call nothing would only fail.
    """
    if not read.roots:
        labelled = "" if asked.label is None else f" with the label {asked.label}"
        since = f"{asked.since:%Y-%m-%d %H:%M}"
        detail = f"no run of {asked.network}{labelled} has completed since {since}, as far as was looked"
        remedy = "Name an earlier time, or make a grant in another way: towpath grants --help lists them."
        raise ProblemError(problem("grant_not_proposed", detail, remedy=remedy))
    runs = len(read.roots)
    entries: list[ProposedGrantEntry] = []
    left_out: list[LeftOutTool] = []
    for tool in used.tools:
        reason = _why_not(tool, snapshot, runs, asked.min_share)
        if reason is None:
            entries.append(_entry(tool, snapshot, runs, tight=asked.tight))
        elif not _needs_no_grant(tool.tool, snapshot):
            left_out.append(LeftOutTool(tool=tool.tool, reason=reason))
    seen = {*(entry.tool for entry in entries), *(one.tool for one in left_out)}
    entries += internal_entries(snapshot, snapshot.tools.keys() - seen)
    left_out += [
        LeftOutTool(tool=name, reason=f"none of {runs} runs used it")
        for name in sorted(snapshot.tools.keys() - seen)
        if not snapshot.tools[name].internal
    ]
    more = {"left_out": left_out, "runs": runs, "complete": read.complete}
    return proposal_of(snapshot, version, "runs", entries, **more)


def _needs_no_grant(tool: str, snapshot: NetworkSnapshot) -> bool:
    """Return whether *tool* is applied by the run itself, or read what its run was given, which every agent may."""
    spec = snapshot.all_tools.get(tool)
    return spec is not None and spec.internal


def _why_not(tool: UsedTool, snapshot: NetworkSnapshot, runs: int, min_share: float) -> str | None:
    spec = snapshot.tools.get(tool.tool)
    if spec is None:
        return "the network has it no more"
    if spec.operation != tool.operation:
        return f"its operation is {spec.operation} now, and was {tool.operation}"
    if tool.runs / runs < min_share:
        return f"{tool.runs} of {runs} runs used it, a smaller share than {min_share:.0%}"
    return None


def _entry(tool: UsedTool, snapshot: NetworkSnapshot, runs: int, *, tight: bool) -> ProposedGrantEntry:
    when = _condition(tool) if tight else None
    reason = f"{tool.runs} of {runs} runs used it, in {tool.calls} calls"
    if when is not None:
        reason += ", always with this destination"
    return ProposedGrantEntry(
        tool=tool.tool,
        operation=operation_of(snapshot.tools[tool.tool]),
        when=when,
        reason=reason,
        runs=tool.runs,
        calls=tool.calls,
    )


def _condition(tool: UsedTool) -> str | None:
    """Return the condition that binds a call to the destinations of all calls before; None where there are none."""
    if tool.calls < TIGHT_CALLS:
        return None
    when = " && ".join(_equalities(tool))
    return when if when and len(when) <= MAX_CONDITION else None


def _equalities(tool: UsedTool) -> Iterator[str]:
    for name, text in sorted(tool.constants.items()):
        value = json.loads(text)
        if isinstance(value, str | bool | int | float):  # of a list or an object CEL compares more than its text
            yield f"args.{name} == {json.dumps(value, ensure_ascii=False)}"
