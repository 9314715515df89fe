"""Older versions of the matrix and changes of single rules: list, change log, roll back, edit one rule.

Nothing here stores a matrix by itself. Rolling back and editing a rule produce a whole new text and apply it like any
other, on top of the version that it was made from.
"""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from towpath_contracts.base import JsonObject
from towpath_contracts.problems.input_faults import tell_faults
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.tools.access import ApplyPolicy, GetPolicy, PolicyApplied
from towpath_contracts.tools.policy import (
    ChangeRule,
    ListPolicyVersions,
    PolicyChangeLog,
    PolicyChangeLogEntry,
    PolicyVersion,
    PolicyVersions,
    RollBackPolicy,
    RuleChange,
    RuleChanged,
)
from towpath_tas.adapters.cel import compile_condition
from towpath_tas.adapters.ledger_tables import QUERIES
from towpath_tas.app.policy.policies import PolicyStore
from towpath_tas.app.policy.policy_diff import HISTORY
from towpath_tas.app.policy.policy_threads import PolicyThreads
from towpath_tas.core.policy.rule_edits import EMPTY, EditedPolicyText, put_rule, remove_rule

MAX_ROUNDS = 4
"""Rounds if others change the same policy meanwhile; after them the request fails with `policy_moved`."""

MAX_COMPARED_RULES = 20_000
"""Rules that are read and compared for one page of the change log, but for those of one version and the one before."""

MAX_CHANGES_CHARS = 700_000
"""Characters of the changed rules of one page, but for those of one version: a page is one message."""

MAX_CHANGES = 200
"""Changed rules listed for one version; of a larger change the rest is counted."""

_NO_CHANGE = frozenset({"digest", "at"})
"""Members of a rule that change along with others, or where it was only moved."""


class PolicyVersionRequests:
    """Lists versions, and makes new ones from old ones."""

    def __init__(self, pool: Any, policies: PolicyStore, threads: PolicyThreads) -> None:
        self._pool = pool
        self._threads = threads
        self._policies = policies

    async def list_versions(self, request: ListPolicyVersions) -> PolicyVersions:
        """Return a page of versions, newest first."""
        rows = await self._page(request)
        state = await self._pool.fetchrow(QUERIES.project_state, request.project)
        page = rows[: request.limit]
        return PolicyVersions(
            current=state["policy_version"] if state else 0,
            versions=tuple(PolicyVersion.model_validate(dict(row)) for row in page),
            next_before=page[-1]["version"] if len(rows) > request.limit else None,
        )

    async def changes(self, request: ListPolicyVersions) -> PolicyChangeLog:
        """Return a page of the change log, newest first: who, when, why, and each changed rule.

        It has fewer versions where they have many rules. Raises ProblemError `overloaded`.
        """
        questions = self._threads.questions
        async with questions.turn(request.project):
            rows = await self._page(request)
            page = _comparable(rows[: request.limit], rows)
            wanted = sorted({row["version"] - back for row in page for back in (0, 1)})
            stored = await self._pool.fetch(HISTORY.rules_of_versions, request.project, wanted)
            return await questions.compute(partial(_change_log, page, stored, len(rows)))

    async def roll_back(self, request: RollBackPolicy) -> PolicyApplied:
        """Apply the text of an older version as a new one; raises ProblemError as `apply`, or `version_not_found`."""
        old = await self._policies.show_text(GetPolicy(project=request.project, version=request.version))
        places = await self._pool.fetch(HISTORY.rule_places, request.project, old.version)
        return await self._policies.apply_from(
            ApplyPolicy(
                project=request.project,
                actor=request.actor,
                key_prefix=request.key_prefix,
                key_commitment=request.key_commitment,
                text=old.text,
                source=f"version {request.version}",
                note=request.note or f"back to version {request.version}",
                dry_run=request.dry_run,
                if_version=request.if_version,
            ),
            "",
            places,
        )

    async def change_rule(self, request: ChangeRule) -> RuleChanged:
        """Add, replace or remove one rule; the others are still found where they stand.

        Raises ProblemError `policy_invalid`, `rule_not_found`, and `policy_moved` if the named version is not in force,
        or others kept changing the policy.
        """
        for _ in range(MAX_ROUNDS):
            now = await self._policies.show_text(GetPolicy(project=request.project))
            edited = await self._threads.texts.run(request.project, partial(_edit, now.text, request))
            apply_request = ApplyPolicy(
                project=request.project,
                actor=request.actor,
                key_prefix=request.key_prefix,
                key_commitment=request.key_commitment,
                text=edited.text,
                source=f"rule {request.name}",
                note=request.note,
                dry_run=request.dry_run,
                if_version=now.version if request.if_version is None else request.if_version,
            )
            places = await self._pool.fetch(HISTORY.rule_places, request.project, now.version)
            try:
                applied = await self._policies.apply_from(apply_request, "", places)
            except ProblemError as error:
                if error.problem.code != "policy_moved" or request.if_version is not None:
                    raise
            else:
                return RuleChanged(**applied.model_dump(), rewritten=edited.rewritten)
        raise ProblemError(problem("policy_moved", "others keep changing the matrix; try again"))

    async def _page(self, request: ListPolicyVersions) -> Sequence[Any]:
        rows: Sequence[Any] = await self._pool.fetch(
            HISTORY.versions, request.project, request.before, request.limit + 1
        )
        return rows


def _edit(text: str, request: ChangeRule) -> EditedPolicyText:
    text = text or EMPTY
    if request.rule is None:
        edited = remove_rule(text, request.name, compile_condition)
        if edited is None:
            raise ProblemError(problem("rule_not_found", f"there is no rule named {request.name}"))
    else:
        edited = put_rule(text, request.name, request.rule, compile_condition)
    if edited.problems:
        raise ProblemError(problem("policy_invalid", tell_faults(edited.problems), errors=edited.problems))
    return edited


def _comparable(page: Sequence[Any], rows: Sequence[Any]) -> Sequence[Any]:
    """Return the first of *page* that have few rules enough together; *rows* have the version before the last too."""
    compared = 0
    for place, row in enumerate(page):
        compared += row["rules"] + sum(older["rules"] for older in rows[place + 1 : place + 2])
        if place and compared > MAX_COMPARED_RULES:
            return page[:place]
    return page


def _change_log(page: Sequence[Any], stored: Sequence[Any], found: int) -> PolicyChangeLog:
    """Return the changes of *page*, or of its first ones; *found* are the versions that there are at least."""
    rules: dict[int, list[JsonObject]] = {}
    chars: dict[str, int] = {}
    for row in stored:
        rule = json.loads(row["rule"])
        rules.setdefault(row["version"], []).append(rule)
        chars[rule["name"]] = max(len(row["rule"]), chars.get(rule["name"], 0))
    changes: list[PolicyChangeLogEntry] = []
    room = MAX_CHANGES_CHARS
    for row in page:
        change = _change(row, rules.get(row["version"] - 1, ()), rules.get(row["version"], ()))
        room -= sum(chars[one.name] * (2 if one.change == "altered" else 1) for one in change.changes)
        if changes and room < 0:
            break
        changes.append(change)
    return PolicyChangeLog(
        changes=tuple(changes), next_before=changes[-1].version if changes and found > len(changes) else None
    )


def _change(row: Any, before: Sequence[JsonObject], after: Sequence[JsonObject]) -> PolicyChangeLogEntry:
    changes = _rule_changes({rule["name"]: rule for rule in before}, {rule["name"]: rule for rule in after})
    more = max(0, len(changes) - MAX_CHANGES)
    return PolicyChangeLogEntry.model_validate({**dict(row), "changes": tuple(changes[:MAX_CHANGES]), "more": more})


def _rule_changes(before: Mapping[str, JsonObject], after: Mapping[str, JsonObject]) -> list[RuleChange]:
    changes = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old is None:
            changes.append(RuleChange(name=name, change="added", after=new))
        elif new is None:
            changes.append(RuleChange(name=name, change="removed", before=old))
        else:
            # Older releases stored fewer members: a missing one has its default.
            fields = tuple(key for key in new if key not in _NO_CHANGE and key in old and old[key] != new[key])
            if fields:
                changes.append(RuleChange(name=name, change="altered", fields=fields, before=old, after=new))
    return changes
