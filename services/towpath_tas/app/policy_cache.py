"""Caches what decides in each project: matrix, tool registry, stop switches, shadow policy.

The cache is only as good as its version numbers. A decision is stored with the versions that it was made with, and
Postgres rejects it if they have changed; then the project is dropped here and loaded again. Whoever registers tools
decides how often that is, and how long their specs are. So what was parsed is kept, and much that is new is parsed in a
thread. Policies are built by `LoadedPolicies`, which keeps them over changes of the registry.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from towpath_contracts.networks.spec import NetworkSnapshot
from towpath_contracts.switches import ActiveSwitch
from towpath_contracts.tools.calls import ToolSpec
from towpath_fabric.postgres.pinned_connection import PinnedDatabaseConnection
from towpath_fabric.postgres.pool import Queries
from towpath_fabric.telemetry.logs import Logger, get_logger
from towpath_tas.adapters.cel import compile_grant, matches
from towpath_tas.adapters.ledger_tables import QUERIES, AuthorizationVersions
from towpath_tas.app.loaded_policies import LoadedPolicies, StoredPolicy, StoredShadow
from towpath_tas.core.authorization import ProjectAuthorizer
from towpath_tas.core.calls.internal_calls import BUILT_IN
from towpath_tas.core.denial_alternatives import AgentDirectory, directory_of
from towpath_tas.core.restored_runs import RestoredRuns
from towpath_tas.core.switches import OpenSwitches
from towpath_tas.core.tools.registry import ProjectToolRegistry, ToolVersion, spec_digest
from towpath_tas.metrics import TasMetrics

SWITCHES = Queries.load("towpath_tas.adapters", "switches.sql")

MAX_DIRECTORIES = 1_024
"""Snapshots whose agents are kept in memory."""

MAX_PROJECTS = 512
"""Projects in memory; the least recently used one is dropped."""

MAX_SPEC_CHARS = 64_000_000
"""Characters of the tools' specs of all projects in memory: parsed they take about six times as many bytes."""

PARSED_AT_ONCE = 65_536
"""Characters of specs that are parsed between two other tasks; more are parsed in a thread."""


SpecKey = tuple[str, int, str]
"""Name, version and digest of a stored spec, which never changes."""


class ParsedToolSpecs:
    """Keeps the specs of projects' tools as parsed; one that has another digest than its row says is left out."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._projects: dict[str, dict[SpecKey, ToolSpec]] = {}
        self._chars: dict[str, int] = {}
        self._turn = asyncio.Lock()

    async def of(
        self, source: "PinnedDatabaseConnection | Any", project: str, tools: Sequence[Any]
    ) -> Mapping[SpecKey, ToolSpec]:
        """Return the specs of the *tools* of *project*, given as rows without them."""
        known = self._projects.get(project, {})
        new = [row for row in tools if _key(row) not in known]
        found = await self._read(source, project, new) if new else {}
        specs = {key: spec for key in map(_key, tools) if (spec := found.get(key, known.get(key))) is not None}
        self._projects.pop(project, None)  # the one that was loaded last is the last to be dropped
        self._projects[project] = specs
        self._chars[project] = sum(row["chars"] for row in tools)
        return specs

    async def _read(
        self, source: "PinnedDatabaseConnection | Any", project: str, new: Sequence[Any]
    ) -> dict[SpecKey, ToolSpec]:
        names, versions = [row["name"] for row in new], [row["version"] for row in new]
        texts = {_key(row): row["spec"] for row in await source.fetch(QUERIES.tool_specs, project, names, versions)}

        def parse() -> dict[SpecKey, ToolSpec]:
            specs = {key: ToolSpec.model_validate_json(text) for key, text in texts.items()}
            return {key: spec for key, spec in specs.items() if spec_digest(spec) == key[2]}

        if sum(map(len, texts.values())) <= PARSED_AT_ONCE:
            found = parse()
        else:
            async with self._turn:  # one thread in all: each slows the loop down
                found = await asyncio.to_thread(parse)
        for name, version, _ in sorted(texts.keys() - found.keys()):
            said = "the stored definition of a tool is not the one that was registered: nobody has it"
            self._log.error(said, project=project, tool=name, version=version)
        return found

    def make_room(self) -> list[str]:
        """Drop what was loaded longest ago while there is too much, and return those projects."""
        dropped: list[str] = []
        while len(self._projects) > MAX_PROJECTS or (self.chars > MAX_SPEC_CHARS and len(self._projects) > 1):
            dropped.append(next(iter(self._projects)))
            del self._projects[dropped[-1]], self._chars[dropped[-1]]
        return dropped

    @property
    def chars(self) -> int:
        """Characters of all specs that are kept."""
        return sum(self._chars.values())


def _key(row: Any) -> SpecKey:
    return row["name"], row["version"], row["digest"]


class PolicyCache:
    """Loads and caches the policy bundles of projects."""

    def __init__(
        self,
        metrics: TasMetrics,
        own: tuple[ToolVersion, ...] = BUILT_IN,
        log: Logger | None = None,
        *,
        explains_in_runs: bool = False,
    ) -> None:
        """*own* are the tools of the platform itself: every project has them.

        With *explains_in_runs* the logs of runs explain denials in full, as `ProjectAuthorizer` says.
        """
        self._explains_in_runs = explains_in_runs
        self._metrics = metrics
        self._log = log or get_logger("tas")
        self._own = own
        self._bundles: dict[str, ProjectAuthorizer] = {}
        self._specs = ParsedToolSpecs(self._log)
        self.policies = LoadedPolicies()
        self._directories: dict[str, AgentDirectory] = {}

    def known(self, project: str) -> ProjectAuthorizer | None:
        """Return the cached bundle of *project*, or None."""
        return self._bundles.get(project)

    def forget(self, project: str) -> None:
        """Load *project* again when it is next needed."""
        self._bundles.pop(project, None)

    async def of(
        self, source: "PinnedDatabaseConnection | Any", project: str, wait_s: float | None = None
    ) -> ProjectAuthorizer:
        """Return the bundle of *project*, loaded if it is not cached. *source* is a connection or a pool.

        Raises PolicyNotLoadedError where its policy takes longer than *wait_s* to be built; that goes on.
        """
        bundle = self._bundles.pop(project, None)
        if bundle is None:
            bundle = await self._load(source, project, wait_s)
            for dropped in self._specs.make_room():
                self._drop(dropped)
            while len(self._bundles) >= MAX_PROJECTS:
                self._drop(next(iter(self._bundles)))
        self._bundles[project] = bundle
        return bundle

    def _drop(self, project: str) -> None:
        self.forget(project)
        self.policies.forget(project)

    def has_directory(self, snapshot_digest: str) -> bool:
        """Return whether the agents of a snapshot were looked up already."""
        return snapshot_digest in self._directories

    async def load_directories(self, source: "PinnedDatabaseConnection | Any", digests: Iterable[str]) -> None:
        """Load the agents of snapshots; a missing or unreadable one has no agents."""
        wanted = sorted(set(digests))
        rows = {row["digest"]: row["snapshot"] for row in await source.fetch(SWITCHES.snapshots, wanted)}
        while self._directories and len(self._directories) + len(wanted) > MAX_DIRECTORIES:
            del self._directories[next(iter(self._directories))]
        for digest in wanted:
            self._directories[digest] = _directory(rows.get(digest))

    async def current(self, source: "PinnedDatabaseConnection | Any", project: str) -> ProjectAuthorizer:
        """Return the bundle of *project* in the versions that Postgres has now."""
        state = await source.fetchrow(QUERIES.project_state, project)
        versions = (state["policy_version"], state["registry_version"]) if state else (0, 0)
        bundle = self._bundles.get(project)
        if bundle is not None and (bundle.matrix.version, bundle.registry.version) != versions:
            self.forget(project)
        return await self.of(source, project)

    async def _load(
        self, source: "PinnedDatabaseConnection | Any", project: str, wait_s: float | None
    ) -> ProjectAuthorizer:
        """Read versions first: if they change while the rest is read, writes with this bundle are rejected."""
        await self.policies.wait(project, wait_s)  # before the rules are read once more for nothing
        self._metrics.reloads.inc()
        state = await source.fetchrow(QUERIES.project_state, project)
        policy, registry = (state["policy_version"], state["registry_version"]) if state else (0, 0)
        applied = (state["rules_digest"] or "") if state else ""
        rows = await source.fetch(QUERIES.rules, project, policy)
        tools = await source.fetch(QUERIES.tools, project)
        specs = await self._specs.of(source, project, tools)
        shadow = await source.fetchrow(QUERIES.shadow, project)
        stored = StoredPolicy(version=policy, applied=applied, rows=rows)
        loaded = await self.policies.of(project, stored, wait_s)
        if loaded.changed:
            said = "the stored rules are not those that were applied: every call is denied"
            self._log.error(said, project=project, version=policy)
            self._metrics.rules_changed.inc()
        registered = [_tool(row, specs[_key(row)]) for row in tools if _key(row) in specs]
        known = [*self._own, *registered]  # an earlier registration under such a name takes precedence
        bundle = ProjectAuthorizer(loaded.matrix, ProjectToolRegistry(known, matches, registry), compile_grant)
        bundle.directories = self._directories
        bundle.explains_in_runs = self._explains_in_runs
        bundle.rules_digest, bundle.rules_changed = loaded.rules_digest, loaded.changed
        bundle.switches = OpenSwitches(
            ActiveSwitch(**dict(row)) for row in await source.fetch(SWITCHES.open_switches, project)
        )
        bundle.restored = RestoredRuns(
            {row["run_id"]: row["lost_since"] for row in await source.fetch(QUERIES.restored_runs, project)}
        )
        if shadow is not None:
            stored_shadow = StoredShadow(digest=shadow["digest"], text=shadow["rules"])
            bundle.shadow = (await self.policies.of(project, stored_shadow, wait_s)).matrix
        return bundle


def _directory(text: str | None) -> AgentDirectory:
    try:
        return {} if text is None else directory_of(NetworkSnapshot.model_validate_json(text))
    except ValidationError:
        return {}


def seen_versions(project: str, bundle: ProjectAuthorizer) -> AuthorizationVersions:
    return AuthorizationVersions(project, bundle.matrix.version, bundle.registry.version)


def _tool(row: Any, spec: ToolSpec) -> ToolVersion:
    version = ToolVersion(spec=spec, version=row["version"], digest=row["digest"], owner=row["owner"])
    return replace(version, held_by=row["held_by"], doubt=row["doubt"])
