"""The network registry: validate, publish, versions.

A version is immutable and one above the last; publishing what is already current changes nothing. Who publishes one is
in the audit before it can be used. Every problem is reported at once. Networks whose names begin with `towpath.` belong
to the platform: nobody publishes one; every project has the one that there is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pydantic import ValidationError

from towpath_contracts.canonical import canonical_json, digest, digest_text
from towpath_contracts.decisions.request import PromptContext
from towpath_contracts.events.log import RunCreated
from towpath_contracts.grant_proposals.asked_grants import GRANT_NETWORK, GRANT_NETWORK_VERSION, GRANT_SNAPSHOT
from towpath_contracts.network_checks.written_models import written_model_problems
from towpath_contracts.networks.spec import (
    ListNetworks,
    NetworkList,
    NetworkSnapshot,
    NetworkSpec,
    NetworkVersion,
    PublishNetwork,
)
from towpath_contracts.problems.input_faults import FaultList, faults_of_sample, list_faults
from towpath_contracts.problems.near_names import MAX_NAMES, suggest_name, unknown_agent
from towpath_contracts.problems.prompt_lines import in_prompt_line
from towpath_contracts.problems.registry import ProblemDetail, ProblemError, problem
from towpath_contracts.rpc import DESCRIBE_TOOLS
from towpath_contracts.run_limits import USUAL_TIMES_MS
from towpath_contracts.runs.views import PreviewPrompt, PromptContextPreview
from towpath_contracts.tools.access import DescribeTools, ToolsDescribed
from towpath_contracts.tools.calls import ToolSpec
from towpath_contracts.tools.internal_tools import PLATFORM_OWNER
from towpath_contracts.tools.reserved_names import PLATFORM, is_platform_network
from towpath_engine.publish.networks import REGISTER, check, compile_prompt, compile_snapshot, snapshot_body
from towpath_engine.replay import create
from towpath_engine.requests.effects import reads_prompt
from towpath_engine.requests.network_context import build_context
from towpath_engine.state.replace import replace
from towpath_fabric.batch_loader import KeyBatchLoader
from towpath_fabric.ids import new_run_id
from towpath_fabric.ports import Database, MessageBus
from towpath_fabric.turns.fair_threads import FairThreads
from towpath_fabric.turns.work_turns import WorkTurns
from towpath_orchestrator.adapters.run_store import QUERIES, RunStore
from towpath_orchestrator.app.audited_actions import record_action

Wanted = tuple[str, str, int | None]
"""Project, network, version; None is the current one."""


MAX_LISTED = 4_000
"""Networks in one list. More would not fit a message: nothing is made of them to see that."""

MAX_PROMPT_TOKENS = 10_000
"""Tokens of the prompts of a network: a text between two tags is one, a placeholder five. Half a second at most."""


MAX_NAMED = 5
"""Networks that are named to who asks for one that there is not."""

PUBLISHES = 2
"""Networks that are stored at the same time: each holds a connection while the audit is asked. One of a project."""

WAIT_S = 3.0
"""How long one waits for its turn: its caller waits for an answer for five seconds."""


def _published(names: Sequence[str]) -> str:
    """Return the end of a sentence about a network that there is not: those that there are, the first of many."""
    if not names:
        return ", and no other either: none is published yet"
    more = len(names) - MAX_NAMED
    there = f"; there are {', '.join(names[:MAX_NAMED])}" if len(names) > 1 else f"; there is {names[0]}"
    return f"{there} and {more} more" if more > 0 else there


def check_name(name: str) -> list[ProblemDetail]:
    """Return what speaks against a network of this *name*: those that begin with `towpath.` are the platform's.

    All of them are kept, however they are written, so that a later version can have another one, and nobody takes a
    user's network for one of the platform.
    """
    if not is_platform_network(name):
        return []
    detail = f"{name}: networks whose names begin with {PLATFORM}. are the platform's"
    return [ProblemDetail(pointer="/name", code="network_reserved", detail=detail)]


def check_prompts(spec: NetworkSpec) -> list[ProblemDetail]:
    """Return every prompt template that the decider would refuse in the middle of a run.

    None is compiled where they have too many tokens together.
    """
    # jinja2 is needed when a network is published, which few replicas ever see.
    from towpath_fabric.prompt_templates import (  # noqa: PLC0415
        PromptInvalidError,
        compile_base_prompt,
        template_tokens,
    )

    left = MAX_PROMPT_TOKENS
    for agent in spec.agents:
        left -= template_tokens(compile_prompt(agent.prompt_template), left)
        if left < 0:
            detail = f"the prompts of its agents have more than {MAX_PROMPT_TOKENS} tokens of templates together"
            return [ProblemDetail(pointer="/agents", code="network_too_large", detail=detail)]
    problems = []
    for index, agent in enumerate(spec.agents):
        try:
            compile_base_prompt(compile_prompt(agent.prompt_template))
        except PromptInvalidError as error:
            pointer = f"/agents/{index}/prompt_template"
            said = error.what
            if error.line is not None:
                said = in_prompt_line(agent.prompt_template, error.line, said)
            problems.append(ProblemDetail(pointer=pointer, code="prompt_invalid", detail=f"{agent.key}: {said}"))
    return problems


@dataclass(frozen=True, slots=True)
class _CompiledNetwork:
    """A snapshot, the JSON that is stored of it, and the digest of that."""

    snapshot: NetworkSnapshot
    text: str
    address: str


def compile_checked(
    spec: NetworkSpec,
    tools: Mapping[str, ToolSpec],
    others: Sequence[str] = (),
    *,
    waiting: Mapping[str, int] = MappingProxyType({}),
    register: str = REGISTER,
) -> _CompiledNetwork:
    """Return what *spec* is compiled to; raises ProblemError with everything that is wrong with it.

    One of *others* may have been meant where a tool is not there, or it is *waiting*, in this version, until somebody
    accepts it; *register* says how it gets there.
    """
    found = [
        *check_name(spec.name),
        *check(spec, tools, others, waiting=waiting, register=register),
        *check_prompts(spec),
    ]
    if found:
        detail = f"{spec.name}: " + "; ".join(entry.detail for entry in found)
        raise ProblemError(problem("network_invalid", detail, errors=tuple(found)))
    snapshot = compile_snapshot(spec, tools)
    text = canonical_json(snapshot_body(snapshot))
    return _CompiledNetwork(snapshot, text, digest_text(text))


class NetworkRegistry:
    """Networks of every project."""

    def __init__(self, pool: Database, store: RunStore, bus: MessageBus, threads: FairThreads) -> None:
        """*threads* check networks: that takes up to a second, and whoever may read networks may have it done."""
        self._pool = pool
        self._store = store
        self._bus = bus
        self._threads = threads
        self._versions = KeyBatchLoader(self._look)
        self._turns = WorkTurns(PUBLISHES, lambda _: 1, WAIT_S)

    async def find(self, project: str, name: str, version: int | None) -> NetworkVersion:
        """Return a version, the current one when none is named; raises ProblemError."""
        found = await self._versions.get((project, name, version))
        if found is not None:
            return found
        if version is None:
            known = [row["name"] for row in await self._pool.fetch(QUERIES.current_networks, project, MAX_NAMES)]
            hint = suggest_name(name, known, otherwise=_published(known))
            raise ProblemError(problem("network_not_found", f"the project {project} has no network {name!r}{hint}"))
        detail = f"{name!r} has no version {version}"
        raise ProblemError(problem("version_not_found", detail, known={"network": name}))

    async def _look(self, wanted: list[Wanted]) -> dict[Wanted, NetworkVersion]:
        found = {}
        for project, name, version in wanted:
            if name == GRANT_NETWORK:
                if version in (None, GRANT_NETWORK_VERSION):
                    found[project, name, version] = await self._built_in(project)
                continue
            row = await self._pool.fetchrow(QUERIES.network_version, project, name, version)
            if row is not None:
                found[project, name, version] = NetworkVersion(**dict(row), current=version is None)
        return found

    async def _built_in(self, project: str) -> NetworkVersion:
        """Return the platform's own network; its snapshot is stored like others, since its runs name it."""
        body = snapshot_body(GRANT_SNAPSHOT)
        address = digest(body)
        await self._pool.execute(QUERIES.add_snapshot, address, canonical_json(body))
        return NetworkVersion(
            project=project,
            name=GRANT_NETWORK,
            version=GRANT_NETWORK_VERSION,
            digest=address,
            published_at=await self._pool.fetchval(QUERIES.now),
            published_by=PLATFORM_OWNER,
        )

    async def publish(self, request: PublishNetwork) -> NetworkVersion:
        """Check and compile a network and store it as the next version, unless `dry_run`.

        Raises ProblemError `network_invalid` with all errors, and `network_moved` if the named version is not current.
        """
        try:
            spec = NetworkSpec.model_validate(request.spec)
        except ValidationError as error:
            invalid = list_faults(error, faults_of_sample(NetworkSpec, request.spec), NetworkSpec)
            models = tuple(written_model_problems(request.spec))
            invalid = FaultList((*invalid.details, *models), invalid.total + len(models))
            raise ProblemError(problem("network_invalid", invalid.summary, errors=invalid.details)) from error
        tools = await self._tools(request.project, spec)
        missing = any(name not in tools for agent in spec.agents for name in agent.equipped_tools)
        others, waiting = await self._other_tools(request.project) if missing else ((), {})
        compiled = await self._threads.run(
            request.project, lambda: compile_checked(spec, tools, others, waiting=waiting)
        )
        return await self._publish_next(request, spec, compiled)

    async def _tools(self, project: str, spec: NetworkSpec) -> dict[str, ToolSpec]:
        names = tuple(sorted({name for agent in spec.agents for name in agent.equipped_tools}))
        if not names:
            return {}
        described: ToolsDescribed = await self._bus.request(DESCRIBE_TOOLS, DescribeTools(project=project, names=names))
        return {tool.name: tool for tool in described.tools}

    async def _other_tools(self, project: str) -> tuple[tuple[str, ...], dict[str, int]]:
        """Return the names of all tools, to say which one was meant, and the versions of those that nobody accepted.

        None where they are more than an answer holds.
        """
        try:
            ask = DescribeTools(project=project, proposals=True)
            found: ToolsDescribed = await self._bus.request(DESCRIBE_TOOLS, ask)
        except ProblemError:
            return (), {}
        waiting = {one.spec.name: one.version for one in found.proposals if one.status == "pending"}
        return tuple(tool.name for tool in found.tools), waiting

    async def _publish_next(
        self, request: PublishNetwork, spec: NetworkSpec, compiled: _CompiledNetwork
    ) -> NetworkVersion:
        """Store a version, and have the audit name it before that is committed; what is equal changes nothing."""
        snapshot, address = compiled.snapshot, compiled.address
        held = self._turns.held(request.project)
        async with held, self._pool.acquire() as connection, connection.transaction():
            await connection.execute(QUERIES.lock_name, request.project, spec.name)
            current = await connection.fetchrow(QUERIES.network_version, request.project, spec.name, None)
            newest = current["version"] if current is not None else 0
            if request.if_version not in {None, newest}:
                which = f"version {newest} is current" if newest else "no version is published"
                raise ProblemError(problem("network_moved", f"{which}, not {request.if_version}"))
            if current is not None and current["digest"] == address:
                return NetworkVersion(**dict(current), unchanged=True, snapshot=snapshot)
            version = (current["version"] if current is not None else 0) + 1
            if request.dry_run:
                published_at = await connection.fetchval(QUERIES.now)
            else:
                await connection.execute(QUERIES.add_snapshot, address, compiled.text)
                published_at = await connection.fetchval(
                    QUERIES.add_version,
                    request.project,
                    spec.name,
                    version,
                    address,
                    spec.model_dump_json(),
                    request.actor,
                )
                await record_action(
                    self._bus, request, "network.published", network=spec.name, version=version, digest=address
                )
        return NetworkVersion(
            project=request.project,
            name=spec.name,
            version=version,
            digest=address,
            published_at=published_at,
            published_by=request.actor,
            snapshot=snapshot,
        )

    async def list(self, request: ListNetworks) -> NetworkList:
        """Return the current version of every network of a project; raises ProblemError `answer_too_large`.

        With a name, the versions of that network; raises ProblemError `network_not_found`.
        """
        if request.name is not None:
            return await self._versions_of(request.project, request.name, request)
        rows = await self._pool.fetch(QUERIES.current_networks, request.project, MAX_LISTED + 1)
        if len(rows) > MAX_LISTED:
            detail = f"{request.project} has more than {MAX_LISTED} networks, which are more than one message holds"
            raise ProblemError(problem("answer_too_large", detail))
        return NetworkList(networks=tuple(NetworkVersion(**dict(row)) for row in rows))

    async def _versions_of(self, project: str, name: str, page: ListNetworks) -> NetworkList:
        """Return a page of the versions of a network; of a network of the platform's the one that there is."""
        current = await self.find(project, name, None)
        if name == GRANT_NETWORK:
            return NetworkList(networks=(current.model_copy(update={"current": True}),))
        rows = await self._pool.fetch(QUERIES.network_versions, project, name, page.before, page.limit + 1)
        found = tuple(NetworkVersion(**dict(row), current=row["version"] == current.version) for row in rows)
        shown = found[: page.limit]
        return NetworkList(networks=shown, next_before=shown[-1].version if len(found) > page.limit else None)

    async def show(self, request: PreviewPrompt) -> NetworkVersion:
        """Return one version with its snapshot and source."""
        version = await self.find(request.project, request.network, request.version)
        snapshot = await self._store.snapshot(version.digest)
        spec = await self._pool.fetchval(QUERIES.network_spec, request.project, version.name, version.version)
        source = None if spec is None else NetworkSpec.model_validate_json(spec).model_dump(mode="json")
        return version.model_copy(update={"snapshot": snapshot, "spec": source})

    async def preview(self, request: PreviewPrompt) -> PromptContextPreview:
        """Return what the first prompt of a run would be rendered from."""
        version = await self.find(request.project, request.network, request.version)
        snapshot = await self._store.snapshot(version.digest)
        key = request.agent_key or snapshot.default_agent_key
        if key not in snapshot.agents:
            raise ProblemError(problem("agent_not_found", unknown_agent(key, snapshot.agents)))
        context = await self._first_context(version, snapshot, key, request.user_message)
        return PromptContextPreview(context=context, model=snapshot.agents[key].model)

    async def _first_context(
        self, version: NetworkVersion, snapshot: NetworkSnapshot, agent_key: str, user_message: str
    ) -> PromptContext:
        task = RunCreated(
            project=version.project,
            caller="preview",
            network=version.name,
            version=version.version,
            snapshot_digest=version.digest,
            agent_key=agent_key,
            user_message=user_message,
            max_steps=snapshot.max_steps,
            max_tool_errors=snapshot.max_tool_errors,
            timeout_ms=snapshot.timeout_ms or USUAL_TIMES_MS["network"],
            step_timeout_ms=snapshot.step_timeout_ms,
            context_limit=snapshot.context_limit,
            epoch_turns=True,
        )
        now = await self._pool.fetchval(QUERIES.now)
        state, _entry = create(new_run_id(), snapshot, task, now)
        return build_context(replace(state, step=1), epoch_turns=reads_prompt(snapshot.agents[agent_key].model))
