"""Builds the matrices of projects from their stored rules, what is large in threads, and keeps what it built.

Whoever writes a policy decides how long that takes, and all projects' decisions share one loop. So a large policy is
read, its patterns translated and its conditions compiled in threads at which projects take turns, before it decides
anything. What was built is kept until the rules themselves change: the registry of tools does often. A build goes on
where nobody waits for it any more, so that whoever comes again finds it.
"""

import asyncio
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from towpath_fabric.turns.fair_threads import FairThreads
from towpath_tas.adapters.cel import compile_condition
from towpath_tas.core.policy.matrix import PATTERN_FIELDS, Matrix, Rule
from towpath_tas.core.policy.policy_file import rule_from_row, rules_digest
from towpath_tas.core.policy.policy_size import PolicySize
from towpath_tas.core.policy_comparison import without_limits

MAX_STORED_CHARS_AT_ONCE = 32_768
"""Characters of stored rules that are read on the loop, about seventy rules: a few milliseconds."""

MAX_COMPILED_CHARS_AT_ONCE = 4_096
"""Characters of different conditions and patterns that are compiled on the loop: some hundredths of a second."""

BUILDS_AT_ONCE = 2

_COLUMNS = ("place", "name", "effect", "tool", "operation")


class PolicyNotLoadedError(Exception):
    """The policy of a project is still being built, and takes longer than the caller waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPolicy:
    """The matrix of stored rules and their digest; empty where they are not those that were applied."""

    matrix: Matrix
    rules_digest: str
    changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPolicy:
    """What of a policy was read: its version, the digest that it was applied with, and the rows of its rules."""

    version: int
    applied: str
    rows: Sequence[Any]

    def key(self) -> tuple[Any, ...]:
        """Return what two reads have in common if their rules are the same."""
        stored = "\0".join(str(row[name]) for row in self.rows for name in (*_COLUMNS, "rule"))  # no text has a zero
        return self.version, self.applied, len(self.rows), hashlib.sha256(stored.encode()).digest()

    def chars(self) -> int:
        return sum(len(row["rule"]) for row in self.rows)

    def read(self) -> tuple[str, list[Rule]]:
        """Return the digest of the rules, and the rules, if they are those that were applied."""
        made = _rules_digest(self.rows) if self.version or self.rows else ""
        changed = made != self.applied
        return made, [] if changed else [rule_from_row(json.loads(row["rule"])) for row in self.rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredShadow:
    """What of a shadow policy was read."""

    digest: str
    text: str

    def key(self) -> tuple[Any, ...]:
        return self.digest, hashlib.sha256(self.text.encode()).digest()

    def chars(self) -> int:
        return len(self.text)

    def read(self) -> tuple[str, list[Rule]]:
        return self.digest, [rule_from_row(row) for row in json.loads(self.text)]


_Stored = StoredPolicy | StoredShadow


class LoadedPolicies:
    """Keeps the policies and shadow policies of projects as built."""

    def __init__(self) -> None:
        self.threads = FairThreads(BUILDS_AT_ONCE, name="policy-loads")
        self._kept: dict[tuple[type[_Stored], str], tuple[tuple[Any, ...], LoadedPolicy]] = {}
        self._doing: dict[str, asyncio.Task[LoadedPolicy]] = {}

    def forget(self, project: str) -> None:
        """Free what was built for *project*."""
        for kind in (StoredPolicy, StoredShadow):
            self._kept.pop((kind, project), None)

    async def wait(self, project: str, wait_s: float | None) -> None:
        """Wait until nothing is built for *project*; raises PolicyNotLoadedError after *wait_s*."""
        doing = self._doing.get(project)
        if doing is not None:
            await asyncio.wait({doing}, timeout=wait_s)
            if not doing.done():
                raise PolicyNotLoadedError

    async def of(self, project: str, stored: _Stored, wait_s: float | None) -> LoadedPolicy:
        """Return what *stored* says, built unless it is known; raises PolicyNotLoadedError after *wait_s*."""
        key = stored.key()
        while True:
            known, policy = self._kept.get((type(stored), project), (None, None))
            if policy is not None and known == key:
                return policy
            if project not in self._doing:
                break
            await self.wait(project, wait_s)  # of a project one thing is built at a time
        if stored.chars() <= MAX_STORED_CHARS_AT_ONCE:
            digest, rules = stored.read()
            if _compiled_chars(rules) <= MAX_COMPILED_CHARS_AT_ONCE:
                return self._keep(project, stored, key, _built(stored, digest, rules))
        doing = self._doing[project] = asyncio.create_task(self._build(project, stored, key))
        doing.add_done_callback(_take_error)
        await self.wait(project, wait_s)
        return doing.result()

    async def _build(self, project: str, stored: _Stored, key: tuple[Any, ...]) -> LoadedPolicy:
        try:
            policy = await self.threads.run(project, partial(_built_whole, stored))
            return self._keep(project, stored, key, policy)
        finally:
            del self._doing[project]

    def _keep(self, project: str, stored: _Stored, key: tuple[Any, ...], policy: LoadedPolicy) -> LoadedPolicy:
        self._kept[type(stored), project] = key, policy
        return policy


def _built(stored: _Stored, digest: str, rules: Iterable[Rule]) -> LoadedPolicy:
    if isinstance(stored, StoredShadow):
        return LoadedPolicy(matrix=without_limits(rules, compile_condition), rules_digest=digest, changed=False)
    matrix = Matrix(tuple(rules), compile_condition, stored.version)
    return LoadedPolicy(matrix=matrix, rules_digest=digest, changed=digest != stored.applied)


def _built_whole(stored: _Stored) -> LoadedPolicy:
    """Build in a thread what no decision shall have to do."""
    policy = _built(stored, *stored.read())
    policy.matrix.compile_all()
    return policy


def _compiled_chars(rules: Iterable[Rule]) -> int:
    size = PolicySize()
    for rule in rules:
        for name in PATTERN_FIELDS:
            size.add_pattern(getattr(rule, name))
        if rule.when is not None:
            size.add_condition(rule.when)
    return size.chars


def _take_error(doing: "asyncio.Task[LoadedPolicy]") -> None:
    """Whoever waits is told; where nobody does, the next one builds it again."""
    if not doing.cancelled():
        doing.exception()


def _rules_digest(rows: Sequence[Any]) -> str:
    """Return the digest of stored rules; one that no rules have where they can't be read."""
    try:
        return rules_digest((*(row[name] for name in _COLUMNS), json.loads(row["rule"])) for row in rows)
    except (ValueError, RecursionError):
        return "unreadable"
