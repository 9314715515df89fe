"""`Client`: the same methods over HTTP and over NATS.

A refusal is a TowpathError with a stable code and a remedy; how a run ended is a value, never an exception.
"""

import asyncio
import importlib
from collections.abc import AsyncIterator, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack, overload
from urllib.parse import urlsplit
from uuid import UUID

from towpath.client import settings
from towpath.client.client_resources import ClientResources
from towpath.client.contexts import is_address
from towpath.client.run_controls import OpenStreams, RunControls, timeout_of, uuid_of
from towpath.client.settings import DATA_FOLDER, ClientSettings, ClientTarget, local_token
from towpath.declared_places import checks_keywords
from towpath.errors import RefusedError
from towpath_contracts.problems.registry import problem
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.runs.views import ActionDone, RunPage, RunView
from towpath_contracts.subjects import ANONYMOUS
from towpath_fabric.clock import monotonic

if TYPE_CHECKING:
    from towpath.client.run_controls import RunFilters
    from towpath.client.submitted_run import SubmittedRun
    from towpath.client.transport import Transport
    from towpath.tasks.objectives import Handed, Objective, ObjectiveResult
    from towpath.tasks.outputs import Output, TypedRun
    from towpath.tasks.plans import PlanDraft, PlanRun
    from towpath.tasks.task import TaskKeywords
    from towpath_contracts.base import JsonObject
    from towpath_contracts.events.log import LogEntry
    from towpath_contracts.runs.tree import RunTreeNode
    from towpath_readings.execution_log import RunLogView
    from towpath_readings.goals import GoalView
    from towpath_readings.nodes import RunNodesView
    from towpath_readings.plans import PlanView
    from towpath_readings.stream.live import StreamEvent
    from towpath_readings.transcript import RunMessages

_TRANSPORTS = {
    "http": ("towpath.client.http", "HttpTransport"),
    "https": ("towpath.client.http", "HttpTransport"),
    "nats": ("towpath.client.nats", "NatsTransport"),
    "tls": ("towpath.client.nats", "NatsTransport"),
}
"""Imported when used: neither client library is cheap to import."""

LONGEST_WAIT_S = 30.0
"""Of one submit; longer waits follow the run instead of holding one request."""


@checks_keywords
class Client(ClientResources, RunControls):
    """A client of one platform: `async with Client() as client: …`.

    *server* is `http://…` (default: TOWPATH_SERVER, else the selected context, else a local `towpath up`) or
    `nats://user:password@host:port`, with commas between them where the broker is a cluster; *api_key* (default: that
    of the context, else TOWPATH_API_KEY, else the token of the `towpath up` on ./.towpath) is for HTTP, *caller* for
    NATS. A ClientTarget in the place of *server* has its key, or none: nothing is looked up. Nothing is connected
    before the first call; `async with` waits for a platform that still starts on ./.towpath, where that is meant.
    """

    def __init__(
        self, server: str | ClientTarget | None = None, *, api_key: str | None = None, caller: str = ANONYMOUS
    ) -> None:
        target = server if isinstance(server, ClientTarget) else ClientSettings().target(server, api_key)
        self._starts = target.is_by_place and target is not server and settings.starting_platform() is not None
        self._given_key, self._caller, self._streams = api_key, caller, OpenStreams()
        self.server, api_key = target.server, target.api_key
        options: dict[str, Any] = {}
        if api_key is None and (api_key := local_token(self.server)) is not None:
            from towpath.client.server_owner import ServerOwnerCheck

            options["check"] = ServerOwnerCheck(self.server, DATA_FOLDER.absolute())
        home = _TRANSPORTS.get(urlsplit(self.server).scheme) if is_address(self.server) else None
        if home is None:
            raise settings.refused_address(target)
        if target.api_key and home == _TRANSPORTS["http"]:
            options["key_origin"] = settings.shown_key_origin(target)
        transport = getattr(importlib.import_module(home[0]), home[1])
        self._transport: Transport = transport(self.server, api_key=api_key, caller=caller, **options)

    async def __aenter__(self) -> Self:
        if self._starts:
            await settings.wait_for_start()
            Client.__init__(self, api_key=self._given_key, caller=self._caller)  # its address is known now
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection, and streams that were left; safe to call twice."""
        await self._streams.close()
        await self._transport.close()

    async def submit(
        self,
        network: str,
        message: str = "",
        *,
        plan: "PlanDraft | JsonObject | str | None" = None,
        **options: "Unpack[TaskKeywords]",
    ) -> "SubmittedRun":
        """Submit a task and return once it is accepted: `run_id`, and what can be done with the run.

        *options* are TaskKeywords; a `deadline` is in the answer as `timeout_ms`.
        Without a key the client makes one, so that its own repeat after a lost answer never starts a second run. Put
        what others wrote, such as a customer's mail, into `quoted_inputs` and not into *message*, which counts as what
        the caller says.
        """
        from towpath.client.submitted_run import SubmittedRun
        from towpath.tasks.task import task_of

        wanted: dict[str, Any] = {**options} if plan is None else {**options, "plan": plan}
        accepted = await self._transport.submit(task_of(network, message, wanted, without_end=True), 0.0)
        return SubmittedRun.of(accepted, self)

    @overload
    async def run(
        self,
        network: str,
        message: str = "",
        *,
        timeout: str | float | None = None,
        output_type: "type[Output]",
        plan: "PlanDraft | JsonObject | str | None" = None,
        **options: "Unpack[TaskKeywords]",
    ) -> "TypedRun[Output]": ...

    @overload
    async def run(
        self,
        network: str,
        message: str = "",
        *,
        timeout: str | float | None = None,
        plan: "PlanDraft | JsonObject | str",
        **options: "Unpack[TaskKeywords]",
    ) -> "PlanRun": ...

    @overload
    async def run(
        self,
        network: str,
        message: str = "",
        *,
        timeout: str | float | None = None,
        **options: "Unpack[TaskKeywords]",
    ) -> RunView: ...

    async def run(
        self,
        network: str,
        message: str = "",
        *,
        timeout: str | float | None = None,
        output_type: "type[Output] | None" = None,
        plan: "PlanDraft | JsonObject | str | None" = None,
        **options: "Unpack[TaskKeywords]",
    ) -> RunView:
        """Submit a task and return the finished run; its `status` says how it ended, `final` holds the answer.

        With *output_type*, a pydantic model, dataclass or TypedDict, the answer is held against its JSON Schema, and
        `output` is of that type.
        With *plan*, a `towpath.plan`, or a sentence that a model is to plan, `output` says what became of its steps.
        Of a run that failed `text`, and a typed `output`, raise RunFailedError. Raises RunTimeoutError after *timeout*
        (seconds, or text such as "5m"); the run goes on, as long as its `deadline` among *options* lets it.
        """
        from towpath.tasks.outputs import output_schema, told_if_failed, typed
        from towpath.tasks.plans import plan_run

        wanted: dict[str, Any] = {**options} if plan is None else {**options, "plan": plan}
        if output_type is None:
            view = await self._run(network, message, timeout, wanted)
            return told_if_failed(view) if plan is None else plan_run(view)
        if wanted.get("background") is None:
            wanted.setdefault("response_schema", output_schema(output_type))
        return typed(await self._run(network, message, timeout, wanted), output_type)

    async def _run(self, network: str, message: str, timeout: str | float | None, options: dict[str, Any]) -> RunView:
        from towpath.tasks.task import task_of
        from towpath.tools.declaration import seconds

        began = monotonic()
        limit_s = None if timeout is None else seconds(timeout, "timeout")
        wait_s = LONGEST_WAIT_S if limit_s is None else min(LONGEST_WAIT_S, limit_s)
        accepted = await self._transport.submit(task_of(network, message, options), wait_s)
        if isinstance(accepted, RunView):
            return accepted
        left_s = None if limit_s is None else max(0.0, limit_s - (monotonic() - began))
        return await self.result(accepted.run_id, left_s)

    @overload
    async def reply(
        self,
        run_id: UUID | str,
        message: str,
        *,
        timeout: str | float | None = None,
        output_type: "type[Output]",
        **options: "Unpack[TaskKeywords]",
    ) -> "TypedRun[Output]": ...

    @overload
    async def reply(
        self,
        run_id: UUID | str,
        message: str,
        *,
        timeout: str | float | None = None,
        **options: "Unpack[TaskKeywords]",
    ) -> RunView: ...

    async def reply(
        self,
        run_id: UUID | str,
        message: str,
        *,
        timeout: str | float | None = None,
        output_type: "type[Output] | None" = None,
        **options: "Unpack[TaskKeywords]",
    ) -> RunView:
        """Continue a run that has ended: submit the next message of its thread, and return the finished run.

        It has the turns before it, the files, and what the earlier task said unless *options* say otherwise (fields of
        SubmitTask, `output_type`, `deadline`); budget and time begin anew. Raises RefusedError with the code
        `run_not_ended`, `run_continued` or `reply_refused`, and RunTimeoutError after *timeout*.
        """
        earlier = await self.get(run_id)
        options["continues"] = earlier.run_id
        if output_type is None:
            return await self.run(earlier.network, message, timeout=timeout, **options)
        return await self.run(earlier.network, message, timeout=timeout, output_type=output_type, **options)

    async def pursue(
        self,
        network: str,
        objective: "Objective[Handed] | str",
        *,
        timeout: str | float | None = None,
        **options: "Unpack[TaskKeywords]",
    ) -> "ObjectiveResult[Handed]":
        """Pursue an objective to its end; *options* are TaskKeywords.

        Raises RefusedError where the platform does not take the task, RunTimeoutError after *timeout*; the run goes on.
        """
        from towpath.tasks.objectives import Objective, result_of

        wanted = objective.deliverable if isinstance(objective, Objective) else None
        view = await self._run(network, "", timeout, {**options, "background": objective})
        return result_of(view, wanted)

    async def get(self, run_id: UUID | str) -> RunView:
        """Return a run as it stands."""
        return await self._transport.get(uuid_of(run_id))

    async def plan(self, run_id: UUID | str) -> "PlanView":
        """Return how a plan or workflow stands, step by step, with the child run of each agent. HTTP only."""
        from towpath_readings.plans import PlanView

        return PlanView.model_validate(await self._transport.request("GET", f"/v1/runs/{uuid_of(run_id)}/plan"))

    async def tree(self, run_id: UUID | str) -> "RunTreeNode":
        """Return a run and its child runs. HTTP only."""
        from towpath_contracts.runs.tree import RunTreeNode

        return RunTreeNode.model_validate(await self._transport.request("GET", f"/v1/runs/{uuid_of(run_id)}/tree"))

    @overload
    async def result(
        self, run_id: UUID | str, timeout: str | float | None = None, *, as_: "type[Output]"
    ) -> "Output": ...

    @overload
    async def result(self, run_id: UUID | str, timeout: str | float | None = None) -> RunView: ...

    async def result(
        self, run_id: UUID | str, timeout: str | float | None = None, *, as_: "type[Output] | None" = None
    ) -> "RunView | Output":
        """Wait for the end of a run and return it; raises RunTimeoutError after *timeout*, and the run goes on.

        With *as_*, a pydantic model, dataclass or TypedDict, its answer is returned as that; then RunFailedError is
        raised for a run without an answer, and RefusedError `output_invalid` for an answer that is none.
        """
        from towpath.tasks.outputs import answer_of, told_if_failed

        view = await self._ended(uuid_of(run_id), timeout)
        return told_if_failed(view) if as_ is None else answer_of(view, as_)

    async def _ended(self, run_id: UUID, timeout: str | float | None) -> RunView:
        from towpath.tools.declaration import seconds

        scope = asyncio.timeout(None if timeout is None else seconds(timeout, "timeout"))
        try:
            async with scope:
                view = await self._transport.get(run_id)
                while view.status not in FINAL_STATUSES:
                    view = await self._transport.ended(run_id)
                return view
        except TimeoutError as error:
            if not scope.expired():
                raise
            raise await timeout_of(self._transport, run_id) from error

    async def nodes(self, run_id: UUID | str, *, calls: bool = False) -> "RunNodesView":
        """Return the state of a run with a node for every model call; with the HTTP *calls* behind them. HTTP only."""
        from towpath_readings.nodes import RunNodesView

        path = f"/v1/runs/{uuid_of(run_id)}/nodes"
        return RunNodesView.model_validate(await self._transport.request("GET", path, query={"calls": calls}))

    async def goal(self, run_id: UUID | str) -> "GoalView":
        """Return how a goal run stands, with all its steps. HTTP only."""
        from towpath_readings.goals import GoalView

        return GoalView.model_validate(await self._transport.request("GET", f"/v1/runs/{uuid_of(run_id)}/goal"))

    async def output(self, run_id: UUID | str, execution_id: UUID | str) -> Any:
        """Return all that a call of a run returned, however large, or its failure or denial. HTTP only."""
        path = f"/v1/runs/{uuid_of(run_id)}/tools/{uuid_of(execution_id)}"
        return (await self._transport.request("GET", path))["result"]

    async def messages(self, run_id: UUID | str) -> "RunMessages":
        """Return a run as a conversation, its current turn included. HTTP only."""
        from towpath_readings.transcript import RunMessages

        return RunMessages.model_validate(await self._transport.request("GET", f"/v1/runs/{uuid_of(run_id)}/messages"))

    async def execution_log(self, run_id: UUID | str) -> "RunLogView":
        """Return what a run did so far: its decisions and calls in previews, its instructions. HTTP only."""
        from towpath_readings.execution_log import RunLogView

        path = f"/v1/runs/{uuid_of(run_id)}/execution-log"
        return RunLogView.model_validate(await self._transport.request("GET", path))

    async def events(self, run_id: UUID | str, after: int = 0, *, children: bool = False) -> "AsyncIterator[LogEntry]":
        """Yield every event after seq *after* once and in order, until the run has ended; resumes after a drop.

        With *children* those of all runs below it too, as TreeEntry with `run_id` and `path`, from the beginning on.
        """
        from towpath_contracts.events.log import LogEntry

        if children and after:
            raise RefusedError(problem("request_invalid", "after counts the events of one run: leave it out"))
        found, source = uuid_of(run_id), self._transport
        entries = source.follow(found, children=True) if children else source.events(found, after)
        async with self._streams.opened(entries):
            async for one in entries:
                if isinstance(one, LogEntry):
                    yield one

    async def stream(
        self,
        run_id: UUID | str,
        *,
        detailed: bool = True,
        event_types: Iterable[str] | None = None,
        deltas: bool = False,
        children: bool = False,
    ) -> "AsyncIterator[StreamEvent]":
        """Yield a run as it happens: text, tool_call, tool_result, step, reasoning, usage, status and error.

        Without *detailed* only text and tool_call; *event_types* narrows further; the error that ends a run always
        comes. With *deltas* (HTTP only) what the model writes comes in pieces before, and `superseded` names those to
        discard. With *children* all runs below it are streamed too, each event with its `run_id` and `path`.
        A status that waits for a person is a WaitingGate, which is approved or denied where it is streamed.
        Then, for a run that did not complete and was not cancelled, RunFailedError is raised.
        """
        from towpath.client.streams import StreamEventBuilder, known_types, with_verdicts

        found = uuid_of(run_id)
        builder = StreamEventBuilder(found, detailed=detailed, event_types=known_types(event_types))
        async with self._streams.opened(self._transport.follow(found, children=children, deltas=deltas)) as entries:
            async for entry in entries:
                for one in builder.of(entry):
                    yield with_verdicts(one, self.gates)
        builder.raise_if_failed()

    async def cancel(self, run_id: UUID | str, reason: str = "") -> ActionDone:
        """Ask a run to stop. It has stopped when its status says so."""
        return await self._transport.cancel(uuid_of(run_id), reason)

    async def runs(self, **filters: "Unpack[RunFilters]") -> RunPage:
        """Return a page of runs, newest first. HTTP only."""
        return RunPage.model_validate(await self._transport.request("GET", "/v1/runs", query={**filters}))

    async def request(
        self, method: str, path: str, *, body: "JsonObject | None" = None, query: dict[str, Any] | None = None
    ) -> Any:
        """Do any operation of the HTTP API and return its JSON."""
        return await self._transport.request(method, path, body=body, query=query)
