"""Shadow policies: a second matrix that is evaluated for live calls and never obeyed.

Setting one is audited and takes effect with the next batch, because it increments the registry version, which every
decision is checked against. Where it decides differently, an audit entry of phase `shadow` is written in the same
commit as the decision.
"""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from towpath_contracts.canonical import digest_text
from towpath_contracts.problems.input_faults import tell_faults
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.tools.policy import DiffExample, DiffGroup, GetShadow, SetShadow, ShadowView, merge_groups
from towpath_fabric.turns.fair_threads import FairThreads
from towpath_tas.adapters.ledger_tables import QUERIES, platform_audit_row
from towpath_tas.adapters.policy_texts import PolicyText, read_policy_text
from towpath_tas.app.policy.policy_diff import HISTORY
from towpath_tas.core.policy.policy_file import rule_row
from towpath_tas.core.policy_comparison import CHANGES

MAX_DIVERGENCES = 10_000
"""Divergences counted for one report, the newest."""


class ShadowPolicyRequests:
    """Sets shadow policies and reports where they differ."""

    def __init__(self, pool: Any, threads: FairThreads) -> None:
        self._pool = pool
        self._threads = threads

    async def set(self, request: SetShadow) -> ShadowView:
        """Set the shadow, or end it without a text; raises ProblemError `policy_invalid`."""
        if request.text is None:
            return await self._end(request)
        written, rules = await self._threads.run(request.project, partial(_read, request.text))
        found = written.read
        if found.problems:
            raise ProblemError(problem("policy_invalid", tell_faults(found.problems), errors=found.problems))
        text_digest = digest_text(written.text)
        detail = {"digest": text_digest, "rules": len(found.rules), "source": request.source, "note": request.note}
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.fetchrow(QUERIES.lock_project, request.project)
            await connection.execute(
                HISTORY.set_shadow,
                request.project,
                True,
                text_digest,
                rules,
                request.source,
                request.note,
                request.actor,
            )
            await self._changed(connection, request, "policy.shadow_set", detail)
        return await self.view(GetShadow(project=request.project))

    async def view(self, request: GetShadow) -> ShadowView:
        """Return the shadow that was set last, and where it differed since then."""
        row = await self._pool.fetchrow(HISTORY.shadow_state, request.project)
        if row is None:
            return ShadowView(on=False)
        found = await self._pool.fetch(HISTORY.divergences, request.project, row["since_entry"], MAX_DIVERGENCES + 1)
        counted = found[:MAX_DIVERGENCES]
        return ShadowView(
            on=row["active"],
            digest=row["digest"],
            rules=row["rules"],
            source=row["source"],
            note=row["note"],
            set_by=row["set_by"],
            set_at=row["set_at"],
            divergences=len(counted),
            groups=_groups(counted),
            more=len(found) > MAX_DIVERGENCES,
        )

    async def _end(self, request: SetShadow) -> ShadowView:
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.fetchrow(QUERIES.lock_project, request.project)
            ended = await connection.fetchval(HISTORY.end_shadow, request.project, request.actor, request.note)
            if ended is not None:
                detail = {"digest": ended, "note": request.note}
                await self._changed(connection, request, "policy.shadow_ended", detail)
        return await self.view(GetShadow(project=request.project))

    async def _changed(self, connection: Any, request: SetShadow, phase: str, detail: Any) -> None:
        await connection.execute(QUERIES.move_registry, request.project)
        entry = platform_audit_row(request.project, phase, "applied", actor=request.actor, detail=detail)
        await connection.execute(QUERIES.add_audit, [entry])


def _read(text: str) -> tuple[PolicyText, str]:
    """Return what *text* says, and its rules as they are stored."""
    written = read_policy_text(text)
    return written, json.dumps([rule_row(rule) for rule in written.read.rules])


def _groups(rows: Sequence[Any]) -> tuple[DiffGroup, ...]:
    return merge_groups(_group(row) for row in rows)


def _group(row: Any) -> DiffGroup:
    """Return the group of one divergence. Its verdict is `allow->deny`: the decision, and the one of the shadow."""
    was, _, now = row["verdict"].partition("->")
    example = DiffExample(
        run_id=row["run_id"],
        execution_id=row["execution_id"],
        at=row["at"],
        version_then=row["policy_version"],
        rule_then=row["rule"],
        rule_now=json.loads(row["detail"]).get("rule"),
    )
    return DiffGroup(
        change=CHANGES[now],
        was=was,
        network=row["network"],
        agent_key=row["agent_key"],
        tool=row["tool"],
        calls=1,
        examples=(example,),
    )
