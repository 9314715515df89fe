"""What a client does beside runs: networks, gates, audit, tools, dead letters. HTTP only.

A method is one operation of the HTTP API, with its answer as a typed message.
"""

from pathlib import Path
from typing import Any, TypedDict, Unpack
from urllib.parse import quote
from uuid import UUID

from towpath.client.transport import Transport
from towpath.errors import NotFoundError, RefusedError
from towpath.networks.network import Agent, Network, network_of, place_refusal
from towpath.networks.spec_files import load_network, locate_refusal
from towpath_contracts.base import JsonObject
from towpath_contracts.dead_letters import DeadLetter, DeadLetterPage, LetterStatus
from towpath_contracts.decisions.model_checks import ModelChecked
from towpath_contracts.gate_notices import GateNoticePage
from towpath_contracts.networks.spec import NetworkList, NetworkSpec, NetworkVersion
from towpath_contracts.problems.registry import problem
from towpath_contracts.runs.views import ActionDone, GatePage, GateView, RunView
from towpath_contracts.switches import SwitchKind, SwitchList, SwitchSet
from towpath_contracts.tools.access import ToolsDescribed
from towpath_contracts.tools.queues import QueueList
from towpath_contracts.tools.workers import WorkerDrained, WorkerList
from towpath_contracts.tools.workspace import WorkspaceView

INVOKED_S = 30.0
"""How long a decision is waited for. The gateway alone would wait for longer than clients do: who hears nothing knows
no run, and has the call a second time."""

Written = Agent | Network | NetworkSpec | JsonObject | str | Path
"""A network as a person has it: built, parsed, plain JSON, or the path of a YAML file.

An agent is one too, with those in its `routes`.
"""


def spec_json(written: Written) -> JsonObject:
    """Return *written* as JSON. Plain JSON goes out as it is: the platform lists every problem at once."""
    if isinstance(written, dict):
        return written
    if isinstance(written, str | Path):
        written = load_network(written)
    if isinstance(written, Agent):
        written = network_of(written)
    spec = written.to_spec() if isinstance(written, Network) else written
    return spec.model_dump(mode="json", exclude_none=True)


class NetworkResource:
    """Publishing and reading networks."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def publish(
        self, written: Written, *, dry_run: bool = False, if_version: int | None = None
    ) -> NetworkVersion:
        """Make a new version; one equal to the current version is returned as `unchanged`.

        With *if_version* only while that version is current, 0 for none, else `network_moved`.
        """
        moved = {} if if_version is None else {"if_version": if_version}
        return await self._ask("/v1/networks", written, dry_run=dry_run, **moved)

    async def validate(self, written: Written) -> NetworkVersion:
        """Return what publishing would make, without making it."""
        return await self._ask("/v1/networks/validate", written)

    async def _ask(self, address: str, written: Written, **more: bool | int) -> NetworkVersion:
        """Send a network; faults of one from a file, or from a program, are reported with their lines."""
        written = network_of(written) if isinstance(written, Agent) else written
        spec = spec_json(written)
        try:
            answer = await self._transport.request("POST", address, body={"spec": spec, **more})
        except RefusedError as error:
            if isinstance(written, str | Path):
                raise locate_refusal(written, error) from error
            if isinstance(written, Network):
                raise place_refusal(written, error) from error
            raise
        return NetworkVersion.model_validate(answer)

    async def list(self) -> NetworkList:
        """Return the current versions."""
        return NetworkList.model_validate(await self._transport.request("GET", "/v1/networks"))

    async def show(self, name: str, *, version: int | None = None) -> NetworkVersion:
        """Return one version, the current one by default."""
        answer = await self._transport.request("GET", f"/v1/networks/{name}", query={"version": version})
        return NetworkVersion.model_validate(answer)

    async def prompt(
        self, name: str, message: str = "", *, agent_key: str | None = None, version: int | None = None
    ) -> str:
        """Return the prompt of an agent's first step, the default agent's unless one is named: no run is made."""
        body = {"agent_key": agent_key, "user_message": message, "version": version}
        answer = await self._transport.request("POST", f"/v1/networks/{name}/prompt", body=body)
        return str(answer["prompt"])

    async def invoke(
        self, name: str, decision: JsonObject, *, agent_key: str, message: str = "", version: int | None = None
    ) -> RunView:
        """Carry out one decision of an agent, as a model writes it, in a run of its own; no model is asked.

        Raises RunTimeoutError, which names the run, where it has not ended after INVOKED_S: it goes on.
        """
        body = {"agent_key": agent_key, "decision": decision, "user_message": message, "version": version}
        path = f"/v1/networks/{name}/invoke"
        done = await self._transport.request("POST", path, body=body, wait_s=INVOKED_S)
        return RunView.model_validate(await self._transport.request("GET", f"/v1/runs/{done['run_id']}"))


class GateResource:
    """What waits for a person."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(
        self,
        *,
        status: str | None = "pending",
        run_id: UUID | str | None = None,
        root_run_id: UUID | str | None = None,
        paused: bool = True,
        limit: int = 100,
        assigned_to: str | None = None,
    ) -> tuple[GateView, ...]:
        """Return gates, oldest first, *limit* (500 at most) of them; `status="all"` for settled ones too.

        With *root_run_id* those of that run, which a caller submitted, and of every run below it. Without *paused*
        those of pauses, which only a resume opens, are left out. With *assigned_to* those that were handed to that
        name; `me` means to the caller, or to a role of theirs.
        """
        found = await self.page(
            status=status,
            run_id=run_id,
            root_run_id=root_run_id,
            paused=paused,
            limit=limit,
            assigned_to=assigned_to,
        )
        return found.gates

    async def page(
        self,
        *,
        status: str | None = "pending",
        run_id: UUID | str | None = None,
        root_run_id: UUID | str | None = None,
        paused: bool = True,
        after: UUID | None = None,
        limit: int = 100,
        assigned_to: str | None = None,
    ) -> GatePage:
        """Return a page of `list`: with *after*, the `next_after` of the page before, the one behind that."""
        query: dict[str, Any] = {
            "status": status,
            "run_id": None if run_id is None else str(run_id),
            "root_run_id": None if root_run_id is None else str(root_run_id),
            "after": None if after is None else str(after),
            "limit": limit,
            "assigned_to": assigned_to,
        }
        if not paused:
            query["paused"] = "false"
        return GatePage.model_validate(await self._transport.request("GET", "/v1/gates", query=query))

    async def show(self, gate_id: UUID | str) -> GateView:
        """Return one gate."""
        return GateView.model_validate(await self._transport.request("GET", f"/v1/gates/{_gate_id(gate_id)}"))

    async def approve(self, gate_id: UUID | str, *, reason: str = "", digest: str | None = None) -> ActionDone:
        """Let the call happen; with *digest* only if it is still the call that was shown."""
        return await self._settle(gate_id, "approve", {"reason": reason, "digest": digest})

    async def deny(self, gate_id: UUID | str, reason: str, *, digest: str | None = None) -> ActionDone:
        """Refuse the call; the model sees *reason*."""
        return await self._settle(gate_id, "deny", {"reason": reason, "digest": digest})

    async def edit(
        self, gate_id: UUID | str, args: JsonObject, *, reason: str = "", digest: str | None = None
    ) -> ActionDone:
        """Let the call happen with *args* in the place of its own; with *digest* only if it is still the one shown."""
        return await self._settle(gate_id, "edit", {"args": args, "reason": reason, "digest": digest})

    async def delegate(self, gate_id: UUID | str, to: str, *, reason: str = "", unknown: bool = False) -> GateView:
        """Hand a gate to a person, or with `role:NAME` to everybody with a role; it changes nobody's rights.

        A name that never had a key nor signed in is refused, `delegate_unknown`, but with *unknown*.
        """
        body = {"to": to, "reason": reason, **({"unknown": True} if unknown else {})}
        return GateView.model_validate(
            await self._transport.request("POST", f"/v1/gates/{_gate_id(gate_id)}/delegate", body=body)
        )

    async def resolve(self, gate_id: UUID | str, verdict: str, *, reason: str = "") -> ActionDone:
        """Settle a gate that takes another verdict than yes and no, e.g. `happened` for an unknown effect."""
        return await self._settle(gate_id, "resolve", {"verdict": verdict, "reason": reason})

    async def notices(self, *, status: str = "dead") -> GateNoticePage:
        """Return the newest notices of gates, and who is told; `status="all"` for those that were taken, too."""
        return GateNoticePage.model_validate(
            await self._transport.request("GET", "/v1/notices", query={"status": status})
        )

    async def retry_notice(self, notice_id: UUID | str) -> ActionDone:
        """Send a dead notice again."""
        return ActionDone.model_validate(await self._transport.request("POST", f"/v1/notices/{notice_id}/retry"))

    async def _settle(self, gate_id: UUID | str, verb: str, body: JsonObject) -> ActionDone:
        sent = {name: value for name, value in body.items() if value is not None}
        answer = await self._transport.request("POST", f"/v1/gates/{_gate_id(gate_id)}/{verb}", body=sent)
        return ActionDone.model_validate(answer if isinstance(answer, dict) else {})


def _gate_id(gate_id: UUID | str) -> UUID:
    """Return a gate id that may be text; raises NotFoundError for what is none: only the command line takes parts."""
    if isinstance(gate_id, UUID):
        return gate_id
    try:
        return UUID(str(gate_id))
    except ValueError as error:
        remedy = "Take the gate_id of one that waits: client.gates.list() here, towpath gates list in a terminal."
        raise NotFoundError(problem("gate_not_found", f"{gate_id!r} is not a gate id", remedy=remedy)) from error


class ToolResource:
    """The registered tools."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self, *, proposals: bool = False) -> ToolsDescribed:
        """Return every tool that this credential's project has; with *proposals* also what nobody has accepted."""
        query = {"proposals": "true"} if proposals else {}
        return ToolsDescribed.model_validate(await self._transport.request("GET", "/v1/tools", query=query))


class DeadLetterFilters(TypedDict, total=False):
    """Of `client.dead_letters.list`."""

    status: "LetterStatus | None"
    stream: str | None
    before: int | None
    limit: int | None


class DeadLetterResource:
    """Messages that could not be handled."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self, **filters: Unpack[DeadLetterFilters]) -> DeadLetterPage:
        """Return a page, newest first."""
        query = {**filters}
        return DeadLetterPage.model_validate(await self._transport.request("GET", "/v1/dead-letters", query=query))

    async def show(self, dead_letter_id: int) -> DeadLetter:
        """Return one letter with its body."""
        return DeadLetter.model_validate(await self._transport.request("GET", f"/v1/dead-letters/{dead_letter_id}"))

    async def requeue(self, dead_letter_id: int, reason: str) -> ActionDone:
        """Put the message back where it came from, once; *reason* stands in the audit."""
        return await self._settle(dead_letter_id, "requeue", reason)

    async def discard(self, dead_letter_id: int, reason: str) -> ActionDone:
        """Settle the letter without sending it; *reason* stands in the audit."""
        return await self._settle(dead_letter_id, "discard", reason)

    async def _settle(self, dead_letter_id: int, verb: str, reason: str) -> ActionDone:
        path = f"/v1/dead-letters/{dead_letter_id}/{verb}"
        return ActionDone.model_validate(await self._transport.request("POST", path, body={"reason": reason}))


class WorkspaceResource:
    """`client.workspaces`: list the files of a run, and read them as any version was."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self, run_id: UUID | str) -> WorkspaceView:
        """Return the files of a run and its plan, as they stand."""
        return WorkspaceView.model_validate(await self._transport.request("GET", f"/v1/runs/{run_id}/workspace"))

    async def read(self, run_id: UUID | str, path: str, version: int | None = None) -> str:
        """Return the text of a file, as it stands or as *version* was; raises NotFoundError."""
        location = f"/v1/runs/{run_id}/workspace/{quote(path)}"
        answer = await self._transport.request("GET", location, query={} if version is None else {"version": version})
        return str(answer["content"])


class SwitchResource:
    """What is paused."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self) -> SwitchList:
        """Return the project's open switches, oldest first."""
        return SwitchList.model_validate(await self._transport.request("GET", "/v1/switches"))

    async def pause(
        self, kind: SwitchKind, name: str | None = None, *, reason: str, stop_running: bool = False
    ) -> SwitchSet:
        """Hold new calls back; with *stop_running* also ask those that run to stop. A project needs no *name*."""
        return await self._set("pause", kind, name, {"reason": reason, "stop_running": stop_running})

    async def resume(self, kind: SwitchKind, name: str | None = None, *, reason: str) -> SwitchSet:
        """Let what waits go on."""
        return await self._set("resume", kind, name, {"reason": reason})

    async def _set(self, verb: str, kind: SwitchKind, name: str | None, more: JsonObject) -> SwitchSet:
        body = {"kind": kind, **more} if name is None else {"kind": kind, "name": name, **more}
        return SwitchSet.model_validate(await self._transport.request("POST", f"/v1/switches/{verb}", body=body))


class ModelResource:
    """Models of providers."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def check(self, model: str) -> ModelChecked:
        """Ask *model* (`provider:name`) once, with the smallest question; a model that does not answer is a finding."""
        answer = await self._transport.request("POST", "/v1/models/check", body={"model": model})
        return ModelChecked.model_validate(answer)


class QueueResource:
    """The queues, as the broker has them now."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self) -> QueueList:
        """Return the queues of the project's toolsets, and for an operator of the platform the shared ones too."""
        return QueueList.model_validate(await self._transport.request("GET", "/v1/queues"))


class WorkerResource:
    """The processes that run tools."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self) -> WorkerList:
        """Return the worker processes of the project, by what they said last."""
        return WorkerList.model_validate(await self._transport.request("GET", "/v1/workers"))

    async def drain(self, worker_id: str, *, reason: str = "") -> WorkerDrained:
        """Let a process take no new calls until it is started again; those that it has go on."""
        path = f"/v1/workers/{worker_id}/drain"
        return WorkerDrained.model_validate(await self._transport.request("POST", path, body={"reason": reason}))
