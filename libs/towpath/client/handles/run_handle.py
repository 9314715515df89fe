"""`run`: submit a task and have its end, as one call; `run.sync` without asyncio, `run.stream` event by event.

`run.submit` does not wait for the end, and is also called `submit`, or `submit_sync` without asyncio.

Nothing runs in this process. Every form submits to a platform, so a run looks and is recorded the same; `embedded`
starts one for the length of a block.
"""

from collections.abc import AsyncIterator, Iterable
from typing import Any, Literal, Unpack, overload
from uuid import UUID

from towpath.client.client import Client
from towpath.client.handles.loop_thread import LOOP
from towpath.client.streams import known_types
from towpath.networks.network import Agent, Network
from towpath.tasks.outputs import Output, TypedRun
from towpath.tasks.plans import PlanDraft, PlanRun
from towpath.tasks.task import RunKeywords, TaskKeywords
from towpath_contracts.base import JsonObject
from towpath_contracts.events.log import LogEntry
from towpath_contracts.networks.spec import NetworkSpec
from towpath_contracts.runs.views import RunView
from towpath_contracts.tasks import RunAccepted
from towpath_readings.stream.live import StreamEvent

AnyNetwork = str | Agent | Network | NetworkSpec
"""The name of a published network, or one to publish first (the same one again makes no new version).

An agent stands for the network of it and of the agents in its `routes`, under its key.
"""


class Run:
    """The three forms of running, and the reply to a run.

    `server`, `api_key` and `caller` are Client's; other options are TaskKeywords. Where nobody names a server, that of
    this object is asked.
    """

    def __init__(self, server: str | None = None, api_key: str | None = None) -> None:
        self._server = server
        self._api_key = api_key

    def _client(self, server: str | None, api_key: str | None, caller: str) -> Client:
        if server is None and self._server is not None:
            server, api_key = self._server, api_key or self._api_key
        return Client(server, api_key=api_key, caller=caller)

    @overload
    async def __call__(
        self,
        network: AnyNetwork,
        message: str = "",
        *,
        server: str | None = None,
        api_key: str | None = None,
        caller: str = "anonymous",
        timeout: str | float | None = None,
        output_type: type[Output],
        plan: PlanDraft | JsonObject | str | None = None,
        **options: Unpack[TaskKeywords],
    ) -> TypedRun[Output]: ...

    @overload
    async def __call__(
        self,
        network: AnyNetwork,
        message: str = "",
        *,
        server: str | None = None,
        api_key: str | None = None,
        caller: str = "anonymous",
        timeout: str | float | None = None,
        plan: PlanDraft | JsonObject | str,
        **options: Unpack[TaskKeywords],
    ) -> PlanRun: ...

    @overload
    async def __call__(
        self,
        network: AnyNetwork,
        message: str = "",
        *,
        server: str | None = None,
        api_key: str | None = None,
        caller: str = "anonymous",
        timeout: str | float | None = None,
        **options: Unpack[TaskKeywords],
    ) -> RunView: ...

    async def __call__(
        self,
        network: AnyNetwork,
        message: str = "",
        *,
        server: str | None = None,
        api_key: str | None = None,
        caller: str = "anonymous",
        timeout: str | float | None = None,
        output_type: type[Output] | None = None,
        plan: PlanDraft | JsonObject | str | None = None,
        **options: Unpack[TaskKeywords],
    ) -> RunView:
        """Run *network* and return the finished run; raises RunTimeoutError after *timeout*.

        With *output_type*, a pydantic model, dataclass or TypedDict, the run's `output` is of it; with
        *plan* it says what became of the plan's steps. Of a run that failed `text`, and `output` of a type, raise
        RunFailedError, which says why.
        """
        async with self._client(server, api_key, caller) as client:
            name = await _published(client, network, options)
            if output_type is not None:
                return await client.run(name, message, timeout=timeout, output_type=output_type, plan=plan, **options)
            if plan is not None:
                return await client.run(name, message, timeout=timeout, plan=plan, **options)
            return await client.run(name, message, timeout=timeout, **options)

    async def submit(
        self,
        network: AnyNetwork,
        message: str = "",
        *,
        server: str | None = None,
        api_key: str | None = None,
        caller: str = "anonymous",
        plan: PlanDraft | JsonObject | str | None = None,
        **options: Unpack[TaskKeywords],
    ) -> RunAccepted:
        """Submit a task and return once it is accepted, for a run whose end this program does not wait for.

        Its `run_id` finds it again: `client.result(run_id)`. To follow it here use `Client.submit`.
        """
        async with self._client(server, api_key, caller) as client:
            name = await _published(client, network, options)
            accepted = await client.submit(name, message, plan=plan, **options)
            return RunAccepted.model_validate(accepted.model_dump())

    def submit_sync(
        self,
        network: AnyNetwork,
        message: str = "",
        *,
        server: str | None = None,
        api_key: str | None = None,
        caller: str = "anonymous",
        plan: PlanDraft | JsonObject | str | None = None,
        **options: Unpack[TaskKeywords],
    ) -> RunAccepted:
        """Submit a task without asyncio, as `submit`, and return once it is accepted."""
        return LOOP.wait(
            self.submit(network, message, server=server, api_key=api_key, caller=caller, plan=plan, **options)
        )

    @overload
    async def reply(
        self,
        run: RunView | UUID | str,
        message: str,
        *,
        server: str | None = None,
        api_key: str | None = None,
        caller: str = "anonymous",
        timeout: str | float | None = None,
        output_type: type[Output],
        **options: Unpack[TaskKeywords],
    ) -> TypedRun[Output]: ...

    @overload
    async def reply(
        self,
        run: RunView | UUID | str,
        message: str,
        *,
        server: str | None = None,
        api_key: str | None = None,
        caller: str = "anonymous",
        timeout: str | float | None = None,
        **options: Unpack[TaskKeywords],
    ) -> RunView: ...

    async def reply(
        self,
        run: RunView | UUID | str,
        message: str,
        *,
        server: str | None = None,
        api_key: str | None = None,
        caller: str = "anonymous",
        timeout: str | float | None = None,
        output_type: type[Output] | None = None,
        **options: Unpack[TaskKeywords],
    ) -> RunView:
        """Continue *run*, which has ended, and return the finished run that answers; the same as `Client.reply`."""
        async with self._client(server, api_key, caller) as client:
            run_id = run.run_id if isinstance(run, RunView) else run
            if output_type is None:
                return await client.reply(run_id, message, timeout=timeout, **options)
            return await client.reply(run_id, message, timeout=timeout, output_type=output_type, **options)

    @overload
    def sync(
        self,
        network: AnyNetwork,
        message: str = "",
        *,
        output_type: type[Output],
        plan: PlanDraft | JsonObject | str | None = None,
        **options: Unpack[RunKeywords],
    ) -> TypedRun[Output]: ...

    @overload
    def sync(
        self,
        network: AnyNetwork,
        message: str = "",
        *,
        plan: PlanDraft | JsonObject | str,
        **options: Unpack[RunKeywords],
    ) -> PlanRun: ...

    @overload
    def sync(self, network: AnyNetwork, message: str = "", **options: Unpack[RunKeywords]) -> RunView: ...

    def sync(
        self,
        network: AnyNetwork,
        message: str = "",
        *,
        output_type: type[Output] | None = None,
        plan: PlanDraft | JsonObject | str | None = None,
        **options: Unpack[RunKeywords],
    ) -> RunView:
        """Do the same without asyncio, in a script or in a cell of a notebook, whose event loop waits meanwhile.

        Raises RuntimeError where it would wait for itself. In a server's own coroutines write `await run(…)`.
        """
        if output_type is not None:
            return LOOP.wait(self(network, message, output_type=output_type, plan=plan, **options))
        if plan is not None:
            return LOOP.wait(self(network, message, plan=plan, **options))
        return LOOP.wait(self(network, message, **options))

    @overload
    def stream(
        self,
        network: AnyNetwork,
        message: str = "",
        *,
        detailed: bool,
        event_types: Iterable[str] | None = None,
        deltas: bool = False,
        children: bool = False,
        server: str | None = None,
        api_key: str | None = None,
        caller: str = "anonymous",
        plan: PlanDraft | JsonObject | str | None = None,
        **options: Unpack[TaskKeywords],
    ) -> AsyncIterator[StreamEvent]: ...

    @overload
    def stream(
        self,
        network: AnyNetwork,
        message: str = "",
        *,
        deltas: Literal[True],
        event_types: Iterable[str] | None = None,
        children: bool = False,
        server: str | None = None,
        api_key: str | None = None,
        caller: str = "anonymous",
        plan: PlanDraft | JsonObject | str | None = None,
        **options: Unpack[TaskKeywords],
    ) -> AsyncIterator[StreamEvent]: ...

    @overload
    def stream(
        self,
        network: AnyNetwork,
        message: str = "",
        *,
        children: bool = False,
        server: str | None = None,
        api_key: str | None = None,
        caller: str = "anonymous",
        plan: PlanDraft | JsonObject | str | None = None,
        **options: Unpack[TaskKeywords],
    ) -> AsyncIterator[LogEntry]: ...

    async def stream(
        self,
        network: AnyNetwork,
        message: str = "",
        *,
        detailed: bool | None = None,
        event_types: Iterable[str] | None = None,
        deltas: bool = False,
        children: bool = False,
        server: str | None = None,
        api_key: str | None = None,
        caller: str = "anonymous",
        plan: PlanDraft | JsonObject | str | None = None,
        **options: Unpack[TaskKeywords],
    ) -> AsyncIterator[Any]:
        """Run *network* and yield its events as they happen; the last one is `run_finished`.

        With *detailed* (True or False) they come in the words of a conversation instead, as `Client.stream` says, of
        the kinds *event_types* alone where it is given; a run that fails then raises RunFailedError in the end. So
        they do with *deltas*: pieces of what the model writes, over HTTP. With *children* the events of all runs below
        come too, each with its `run_id` and `path`.
        """
        if deltas and detailed is None:
            detailed = True
        async with self._client(server, api_key, caller) as client:
            name = await _published(client, network, options)
            if detailed is not None:
                known_types(event_types)  # a wrong word begins no run
            accepted = await client.submit(name, message, plan=plan, **options)
            if detailed is None:
                async for entry in client.events(accepted.run_id, children=children):
                    yield entry
                return
            async for event in client.stream(
                accepted.run_id, detailed=detailed, event_types=event_types, deltas=deltas, children=children
            ):
                yield event


async def _published(client: Client, network: AnyNetwork, options: TaskKeywords) -> str:
    """Return the name to run; a network that was handed over is published, and exactly that version is run."""
    if isinstance(network, str):
        return network
    version = await client.networks.publish(network)
    options.setdefault("version", version.version)
    return version.name


run = Run()
run_sync = run.sync
"""`run` without asyncio, under a name of its own."""
submit = run.submit
submit_sync = run.submit_sync
