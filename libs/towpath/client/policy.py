"""The permission matrix as a client sees it: applying, asking, its past, what a change would have done. HTTP only.

A method is one operation of the HTTP API, with its answer as a typed message; only a diff is several, a piece of
bounded time each, put together here.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypedDict, Unpack
from uuid import UUID

from towpath.client.transport import Transport
from towpath.errors import RefusedError
from towpath.networks.policies import Policy, PolicyRule
from towpath.networks.spec_files import PolicyFile, load_policy, locate_policy_refusal
from towpath_contracts.base import JsonObject
from towpath_contracts.tools.access import AccessVerdict, AgentPermissions, PolicyApplied, PolicyView
from towpath_contracts.tools.policy import (
    PermissionsDiff,
    PolicyChangeLog,
    PolicyImpact,
    PolicyVersions,
    RuleChanged,
    ShadowView,
    ToolCallStatistics,
    merge_diffs,
)

Written = Policy | PolicyFile | str | Path
"""A matrix as a person has it: the path of a YAML file, a loaded one, or one that is written in Python."""


def policy_of(written: Written) -> PolicyFile:
    """Return *written* as text with its source."""
    if isinstance(written, Policy):
        return written.to_file()
    return written if isinstance(written, PolicyFile) else load_policy(written)


class AccessDetails(TypedDict, total=False):
    """Of `client.policy.check`: what else is known of the call."""

    agent_type: str
    operation: str | None
    args: "JsonObject"
    caller: str
    step: int
    labels: "Mapping[str, str]"
    grant: "Sequence[JsonObject] | None"
    used: "Mapping[str, int]"
    spent_usd: float | None
    run_id: "UUID | str | None"
    origin: "JsonObject | None"
    rates: bool


class PolicyResource:
    """The permission matrix."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def apply(
        self,
        written: Written,
        *,
        dry_run: bool = False,
        strict: bool = False,
        note: str = "",
        if_version: int | None = None,
    ) -> PolicyApplied:
        """Put a matrix in force; `dry_run` only checks it, `strict` refuses also what is probably wrong with it.

        With *if_version* only while that version is in force, else `policy_moved`.
        """
        policy = policy_of(written)
        body = {"text": policy.text, "source": policy.source, "note": note, "dry_run": dry_run, "strict": strict}
        if if_version is not None:
            body["if_version"] = if_version
        return PolicyApplied.model_validate(await self._send(policy, "POST", "/v1/policy", body))

    async def _send(self, policy: PolicyFile, method: str, path: str, body: JsonObject) -> Any:
        """Send a matrix; what is refused of it is told with the name of its file before the line."""
        try:
            return await self._transport.request(method, path, body=body)
        except RefusedError as error:
            raise RefusedError(locate_policy_refusal(policy, error.problem)) from error

    async def show(self, version: int | None = None) -> PolicyView:
        """Return the matrix in force, or an older version."""
        return PolicyView.model_validate(await self._transport.request("GET", "/v1/policy", query={"version": version}))

    async def check(
        self, *, network: str, agent_key: str, tool: str, **details: Unpack[AccessDetails]
    ) -> AccessVerdict:
        """Return what the matrix would answer to a call, with the trace of its rules; nothing is executed."""
        body = {"network": network, "agent_key": agent_key, "tool": tool, **details}
        return AccessVerdict.model_validate(await self._transport.request("POST", "/v1/policy/check", body=body))

    async def permissions(self, network: str, agent_key: str, *, agent_type: str = "") -> AgentPermissions:
        """Return what the matrix gives an agent, tool by tool."""
        path = f"/v1/permissions/{network}/{agent_key}"
        return AgentPermissions.model_validate(
            await self._transport.request("GET", path, query={"agent_type": agent_type or None})
        )

    async def versions(self, *, before: int | None = None, limit: int = 50) -> PolicyVersions:
        """Return a page of versions, newest first."""
        query = {"before": before, "limit": limit}
        return PolicyVersions.model_validate(await self._transport.request("GET", "/v1/policy/versions", query=query))

    async def changes(self, *, before: int | None = None, limit: int = 20) -> PolicyChangeLog:
        """Return a page of the change log, newest first: who, when, why, and rule by rule what."""
        query = {"before": before, "limit": limit}
        return PolicyChangeLog.model_validate(await self._transport.request("GET", "/v1/policy/changes", query=query))

    async def roll_back(
        self, version: int, *, note: str = "", if_version: int | None = None, dry_run: bool = False
    ) -> PolicyApplied:
        """Apply the text of an older version as a new one."""
        body = {"version": version, "note": note, "if_version": if_version, "dry_run": dry_run}
        return PolicyApplied.model_validate(await self._transport.request("POST", "/v1/policy/rollback", body=body))

    async def put_rule(
        self, rule: PolicyRule | JsonObject, *, note: str = "", if_version: int | None = None, dry_run: bool = False
    ) -> RuleChanged:
        """Replace the rule of that name, or add it at the end."""
        written = rule.to_json() if isinstance(rule, PolicyRule) else rule
        body = {"rule": written, "note": note, "if_version": if_version, "dry_run": dry_run}
        path = f"/v1/policy/rules/{written.get('name', '')}"
        return RuleChanged.model_validate(await self._transport.request("PUT", path, body=body))

    async def remove_rule(self, name: str, *, note: str = "", if_version: int | None = None) -> RuleChanged:
        """Take a rule out."""
        query = {"note": note, "if_version": if_version}
        path = f"/v1/policy/rules/{name}"
        return RuleChanged.model_validate(await self._transport.request("DELETE", path, query=query))

    async def diff(
        self,
        written: Written,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        progress: Callable[[PolicyImpact], None] | None = None,
    ) -> PolicyImpact:
        """Return which recorded calls *written* would have decided otherwise; *progress* is called after each piece."""
        window = {name: at.isoformat() for name, at in (("since", since), ("until", until)) if at is not None}
        policy = policy_of(written)
        body: JsonObject = {"text": policy.text, "limit": 5_000, **window}
        pieces: list[PolicyImpact] = []
        while not pieces or pieces[-1].next_after is not None:
            cursor = {"after": pieces[-1].next_after, "last": pieces[-1].last} if pieces else {}
            answer = await self._send(policy, "POST", "/v1/policy/diff", {**body, **cursor})
            pieces = [merge_diffs([*pieces, PolicyImpact.model_validate(answer)])]
            if progress is not None:
                progress(pieces[-1])
        return pieces[-1]

    async def diff_permissions(self, written: Written) -> PermissionsDiff:
        """Return the agents and tools of which *written* says something else than the policy in force."""
        policy = policy_of(written)
        answer = await self._send(policy, "POST", "/v1/policy/diff/permissions", {"text": policy.text})
        return PermissionsDiff.model_validate(answer)

    async def shadow(self) -> ShadowView:
        """Return the shadow that was set last, and the live calls that it would have decided otherwise."""
        return ShadowView.model_validate(await self._transport.request("GET", "/v1/policy/shadow"))

    async def set_shadow(self, written: Written, *, note: str = "") -> ShadowView:
        """Weigh live calls by a second matrix from now on; it is never obeyed."""
        policy = policy_of(written)
        body = {"text": policy.text, "source": policy.source, "note": note}
        return ShadowView.model_validate(await self._send(policy, "PUT", "/v1/policy/shadow", body))

    async def end_shadow(self, *, note: str = "") -> ShadowView:
        """Weigh no call by the shadow any more."""
        answer = await self._transport.request("DELETE", "/v1/policy/shadow", query={"note": note})
        return ShadowView.model_validate(answer)

    async def statistics(
        self, *, since: datetime | None = None, until: datetime | None = None, by: Iterable[str] = ("tool",)
    ) -> ToolCallStatistics:
        """Count decisions and outcomes of the last day, or of a window, by tool, operation, agent, network, …"""
        query: dict[str, Any] = {"by": list(by)}
        query |= {name: at.isoformat() for name, at in (("since", since), ("until", until)) if at is not None}
        return ToolCallStatistics.model_validate(await self._transport.request("GET", "/v1/statistics", query=query))
