"""The methods of A2A 1.0. Each is a route of this API in other words: same keys, scopes, shares, and the same way in.

Nothing is kept between calls. Giving up a wait, or a stream, changes nothing: the run goes on, and the task has its id.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from uuid import UUID

from fastapi import Response

from towpath_contracts import rpc
from towpath_contracts.base import JsonObject
from towpath_contracts.networks.spec import ListNetworks, NetworkList, NetworkVersion
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.statuses import FINAL_STATUSES, STANDING_STATUSES
from towpath_contracts.runs.trace_context import RemoteSpan
from towpath_contracts.runs.views import CancelRun, ListRuns, PreviewPrompt, RunPage, RunView
from towpath_fabric.clock import monotonic, wall
from towpath_gateway.app.asking_stream import AskingStream
from towpath_gateway.app.dependencies import GatewayDependencies, require_scope
from towpath_gateway.app.errors import naming_run
from towpath_gateway.app.protocols.a2a import call_messages as messages
from towpath_gateway.app.protocols.a2a.agent_cards import gateway_card, network_card
from towpath_gateway.app.protocols.a2a.call_messages import A2aCall, SendMessageParams, read_params
from towpath_gateway.app.protocols.a2a.gate_lookup import open_questions, questions_of, say
from towpath_gateway.app.protocols.a2a.message_tasks import gate_words, message_task, refuse_other_outputs
from towpath_gateway.app.run_reader import RunStreamReader
from towpath_gateway.core import a2a_errors as errors
from towpath_gateway.core.a2a_errors import CallRefusedError
from towpath_gateway.core.a2a_events import A2aEvents
from towpath_gateway.core.a2a_tasks import MESSAGE_LABEL, GateQuestion, context_of, task_of
from towpath_gateway.core.api_keys import Principal

LOOK_MS = 2_000
"""How long one look at a log waits for news: what waits in a run below is not in it."""

RETRY_S = 0.5
PAGE = 200
THREAD_PAGE = 50
"""Runs of a thread among which one that answers the same message is looked for."""

NAMED = 20
"""Networks that a refusal names."""

_OTHERS = {"ListTasks": "GET /v1/runs lists runs"}
_OLD = {
    "message/send": "SendMessage",
    "message/stream": "SendStreamingMessage",
    "tasks/get": "GetTask",
    "tasks/cancel": "CancelTask",
    "tasks/resubscribe": "SubscribeToTask",
    "agent/getAuthenticatedExtendedCard": "GetExtendedAgentCard",
}
"""What methods were called in A2A 0.3."""

_PUSH = "PushNotificationConfig"


class A2aStream(AskingStream):
    """The stream of a task; where others have to decide it says so and stays open."""

    def __init__(self, methods: "A2aMethods", view: RunView, events: A2aEvents, decided: Collection[UUID]) -> None:
        headers = {"Location": f"/v1/runs/{view.run_id}"}
        super().__init__(methods.dependencies, methods.principal, view.run_id, events, decided=decided, headers=headers)
        self._methods = methods
        self._a2a = events

    async def _asks(self, reader: RunStreamReader) -> list[JsonObject]:
        page = reader.page
        stands = bool(self._a2a.gates) or (page is not None and page.status in STANDING_STATUSES)
        asked = (self._dependencies, self._principal, self._run_id, self._decided)
        questions = await open_questions(*asked) if stands else []
        return self._a2a.waiting(questions, self._methods.site) if questions else self._a2a.resumed(wall())


@dataclass(frozen=True, slots=True, kw_only=True)
class A2aMethods:
    """Answers calls of one caller; *network* is the one that the address of the call names, *site* where we are."""

    dependencies: GatewayDependencies
    principal: Principal
    span: RemoteSpan | None
    network: str
    site: str
    headers: dict[str, str] = field(default_factory=dict)

    async def answer(self, call: A2aCall) -> JsonObject | Response:
        """Return the result of *call*, or its stream; raises ProblemError."""
        methods: dict[str, Callable[[A2aCall], Awaitable[JsonObject | Response]]] = {
            "SendMessage": self._send,
            "SendStreamingMessage": self._send_streaming,
            "GetTask": self._get,
            "CancelTask": self._cancel,
            "SubscribeToTask": self._subscribe,
            "GetExtendedAgentCard": self._card,
        }
        method = methods.get(call.method)
        if method is not None:
            return await method(call)
        if call.method.endswith((_PUSH, f"{_PUSH}s")):
            detail = "nothing is pushed: follow a task with SubscribeToTask, or set webhooks up for the platform"
            raise CallRefusedError(problem("operation_unsupported", detail), errors.PUSH_NOT_SUPPORTED)
        if (other := _OTHERS.get(call.method)) is not None:
            raise CallRefusedError(problem("operation_unsupported", f"{call.method}: {other}"), errors.UNSUPPORTED)
        known = _OLD.get(call.method)
        hint = f"it is called {known} in A2A 1.0" if known else f"there are {', '.join(sorted(methods))}"
        detail = f"there is no method {call.method[:64]!r}; {hint}"
        raise CallRefusedError(problem("operation_unsupported", detail), errors.METHOD_NOT_FOUND)

    async def _send(self, call: A2aCall) -> JsonObject:
        params: SendMessageParams = read_params(messages.SEND, call)
        view, decided = await self._take(params, streams=False)
        chosen = params.configuration or messages.SendConfiguration()
        self.headers["Location"] = f"/v1/runs/{view.run_id}"
        with naming_run(view.run_id):
            if chosen.return_immediately:
                return {"task": await self._task(view, decided, chosen.history_length)}
            view, questions = await self._settled(view, decided)
            return {"task": task_of(view, questions, self.site, history=chosen.history_length)}

    async def _send_streaming(self, call: A2aCall) -> Response:
        params: SendMessageParams = read_params(messages.SEND, call)
        view, decided = await self._take(params, streams=True)
        return await self._stream(call, view, decided)

    async def _get(self, call: A2aCall) -> JsonObject:
        params: messages.A2aTaskParams = read_params(messages.TASK, call)
        view = await self._run(params.id, params.tenant)
        return await self._task(view, (), params.history_length)

    async def _cancel(self, call: A2aCall) -> JsonObject:
        params: messages.A2aTaskParams = read_params(messages.TASK, call)
        require_scope(self.principal, "runs:write")
        view = await self._run(params.id, params.tenant)
        request = CancelRun(project=self.principal.project, run_id=view.run_id, **self.principal.named())
        await self.dependencies.platform.request(rpc.CANCEL_RUN, request)
        wait_s = LOOK_MS / 1_000  # most runs have ended by then; of one that has not it says that it works
        ended = await self.dependencies.platform.wait_for_end(self.principal.project, view.run_id, wait_s)
        return await self._task(ended or view, (), params.history_length)

    async def _subscribe(self, call: A2aCall) -> Response:
        params: messages.A2aTaskParams = read_params(messages.TASK, call)
        view = await self._run(params.id, params.tenant)
        if view.status in FINAL_STATUSES:
            detail = f"the task has ended: {view.status}"
            ended = problem("operation_unsupported", detail, remedy="Read it with GetTask.", run_id=str(view.run_id))
            raise CallRefusedError(ended, errors.UNSUPPORTED)
        return await self._stream(call, view, ())

    async def _card(self, call: A2aCall) -> JsonObject:
        params: messages.TenantParams = read_params(messages.TENANT, call)
        require_scope(self.principal, "networks:read")
        if name := self._named(params.tenant):
            return await card_of(self.dependencies, self.principal, name, self.site)
        return gateway_card(self.site, (await self._networks()).networks)

    async def _take(self, params: SendMessageParams, *, streams: bool) -> tuple[RunView, frozenset[UUID]]:
        """Take a message and return its run, and the gates at which it has said a word."""
        chosen = params.configuration
        if chosen is not None and chosen.push:
            detail = "nothing is pushed: leave taskPushNotificationConfig out"
            raise CallRefusedError(problem("operation_unsupported", detail), errors.PUSH_NOT_SUPPORTED)
        refuse_other_outputs((chosen.accepted_output_modes if chosen is not None else None) or ())
        if params.message.task_id:
            return await self._go_on(params)
        return await self._begin(params, streams=streams), frozenset()

    async def _begin(self, params: SendMessageParams, *, streams: bool) -> RunView:
        require_scope(self.principal, "runs:write")
        network = self._named(params.tenant) or await self._only_network()
        continues = await self._continued(params, network)
        task = message_task(params, network, continues)
        platform = self.dependencies.platform
        if streams:
            with self.dependencies.stream_shares.held(self.principal):  # no run is made whose stream has no room
                accepted = await platform.submit(self.principal.caller, task, self.span)
        else:
            accepted = await platform.submit(self.principal.caller, task, self.span)
        self.headers["Location"] = f"/v1/runs/{accepted.run_id}"
        with naming_run(accepted.run_id):
            return await platform.run(self.principal.project, accepted.run_id)

    async def _go_on(self, params: SendMessageParams) -> tuple[RunView, frozenset[UUID]]:
        view = await self._run(params.message.task_id or "", params.tenant)
        if view.status in FINAL_STATUSES:
            detail = f"the task has ended: {view.status}"
            remedy = "Send a message with its contextId and without a taskId: it begins the next task of the thread."
            ended = problem("operation_unsupported", detail, remedy=remedy, run_id=str(view.run_id))
            raise CallRefusedError(ended, errors.UNSUPPORTED)
        if params.message.context_id not in (None, "", context_of(view)):
            detail = f"contextId names another context than that of the task, {context_of(view)}"
            raise ProblemError(problem("request_invalid", detail, run_id=str(view.run_id)))
        words = gate_words(params.message)
        with naming_run(view.run_id):
            questions = await questions_of(self.dependencies, self.principal, view)
            decided = await say(self.dependencies, self.principal, view, words, questions)
            return await self.dependencies.platform.run(self.principal.project, view.run_id), decided

    async def _continued(self, params: SendMessageParams, network: str) -> UUID | None:
        """Return the run that a message in a context continues; a message that is sent again the same as before."""
        context = params.message.context_id
        if not context:
            return None
        thread = _id(context)
        request = ListRuns(project=self.principal.project, thread_id=thread, limit=THREAD_PAGE)
        page: RunPage = await self.dependencies.platform.request(rpc.LIST_RUNS, request)
        if not page.runs or page.runs[0].network != network:
            detail = f"there is no context {context!r} of {network}; one begins with a message without a contextId"
            raise ProblemError(problem("run_not_found", detail))
        own = [run for run in page.runs if run.caller == self.principal.caller]  # as keys of repetition are a caller's
        sent = [run for run in own if run.labels.get(MESSAGE_LABEL) == params.message.message_id]
        return sent[0].previous_run_id if sent else page.runs[0].run_id

    async def _settled(self, view: RunView, decided: Collection[UUID]) -> tuple[RunView, list[GateQuestion]]:
        """Return the run once it has ended, waits for a person, or the time of a request is over; and what it asks.

        A part of the platform that is away for a while only costs time: the run is there, and its id is told.
        """
        until, cursor = monotonic() + self.dependencies.settings.run_wait_s, view.seq
        platform, project = self.dependencies.platform, self.principal.project
        is_first = True
        while not self.dependencies.stopping.is_set() and (left := until - monotonic()) > 0:
            wait_ms = max(1, min(LOOK_MS, int(left * 1_000)))
            try:
                if not is_first:
                    page = await self.dependencies.readings.page(project, view.run_id, cursor, PAGE, wait_ms)
                    cursor = page.entries[-1].seq if page.entries else cursor
                    if cursor < page.seq:
                        continue
                    view = await platform.run(project, view.run_id)
                questions = await questions_of(self.dependencies, self.principal, view, decided)
                if questions or view.status in FINAL_STATUSES:
                    return view, questions
                is_first = False
            except ProblemError as error:
                if not error.problem.retryable:
                    raise
                await asyncio.sleep(RETRY_S)
        return view, await questions_of(self.dependencies, self.principal, view, decided)

    async def _task(self, view: RunView, decided: Collection[UUID], history: int | None) -> JsonObject:
        questions = await questions_of(self.dependencies, self.principal, view, decided)
        return task_of(view, questions, self.site, history=history)

    async def _stream(self, call: A2aCall, view: RunView, decided: Collection[UUID]) -> Response:
        # Gates are told by the stream, which ends with those of the caller: the task before them is at work.
        events = A2aEvents(call.id, view.run_id, task_of(view, _NONE, self.site), after=view.seq)
        return A2aStream(self, view, events, decided)

    async def _run(self, task_id: str, tenant: str | None) -> RunView:
        """Return the run of a task; raises ProblemError `run_not_found`, also for one of another network."""
        view = await self.dependencies.platform.run(self.principal.project, _id(task_id))
        named = self._named(tenant)
        if named and view.network != named:
            raise ProblemError(problem("run_not_found", f"{task_id} is no task of {named}"))
        return view

    def _named(self, tenant: str | None) -> str:
        if tenant and self.network and tenant != self.network:
            detail = f"the address names the network {self.network}, and tenant another one"
            raise ProblemError(problem("request_invalid", detail))
        return self.network or tenant or ""

    async def _only_network(self) -> str:
        """Return the one network of the project; raises ProblemError with their names where it has several."""
        if "networks:read" not in self.principal.scopes:
            raise ProblemError(problem("request_invalid", "name the network in tenant"))
        names = sorted(network.name for network in (await self._networks()).networks)
        if len(names) != 1:
            some = ", ".join(names[:NAMED])
            detail = f"name the network in tenant; there are {some}" if names else "no network is published"
            raise ProblemError(problem("request_invalid", detail))
        return names[0]

    async def _networks(self) -> NetworkList:
        request = ListNetworks(project=self.principal.project)
        listed: NetworkList = await self.dependencies.platform.request(rpc.LIST_NETWORKS, request)
        return listed


_NONE: tuple[GateQuestion, ...] = ()


async def card_of(dependencies: GatewayDependencies, principal: Principal, network: str, site: str) -> JsonObject:
    """Return the card of a published network; raises ProblemError `network_not_found`."""
    found: NetworkVersion = await dependencies.platform.request(
        rpc.GET_NETWORK, PreviewPrompt(project=principal.project, network=network)
    )
    return network_card(found, site)


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise ProblemError(problem("run_not_found", "that is not the id of a task or a context")) from None
