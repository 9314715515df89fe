"""Answers clients of the broker that look for agents and prompt them: a published network is an agent.

The broker holds each client to subjects of its own name, which is the caller of its runs, as on `task.submit`. A client
may do what it may do there; who also shows an API key of the same caller, as `Authorization`, has that key's scopes
and roles, and so is asked at gates. Any process of the gateway may answer; a question is answered to the one
that asked.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress

from nats import errors as nats_errors
from nats.aio.msg import Msg

from towpath_contracts import rpc, subjects
from towpath_contracts.networks.spec import ListNetworks, NetworkList
from towpath_contracts.problems.registry import Problem, ProblemError, problem
from towpath_fabric.clock import wall
from towpath_fabric.turns.work_turns import WorkTurns
from towpath_gateway.app.dependencies import GatewayDependencies, require_scope
from towpath_gateway.app.protocols.nats_agents.prompted_run import PromptedRun
from towpath_gateway.core.agent_messages import (
    agent_info,
    agent_status,
    error_headers,
    network_of,
    prompt_of,
    status_chunk,
)
from towpath_gateway.core.api_keys import Principal, bearer, split_key

QUEUE = "agents"
LOOKS = 16
"""Questions that read the database at a time."""

LOOKS_OF_ONE = 4
"""Of one caller."""

LOOK_WAIT_S = 5.0
"""How long others wait for their turn."""

CLIENT_SCOPES = frozenset({"runs:read", "runs:write"})
"""What a client of the broker may do in its own name without a key."""

Handler = Callable[[Msg], Awaitable[None]]


class PromptServer:
    """The agents of all callers. One per process."""

    def __init__(self, dependencies: GatewayDependencies) -> None:
        self._dependencies = dependencies
        self._turns = WorkTurns(LOOKS, lambda _: LOOKS_OF_ONE, LOOK_WAIT_S)
        self._tasks: set[asyncio.Task[None]] = set()
        self._questions: dict[str, asyncio.Future[bytes]] = {}

    async def run(self) -> None:
        """Answer until the process stops; runs go on without it."""
        nc = self._dependencies.platform.bus.nc
        for subject, handle in (
            (subjects.AGENTS_INFO_ALL, self._info),
            (subjects.AGENTS_STATUS_ALL, self._status),
            (subjects.AGENTS_PROMPT_ALL, self._prompt),
        ):
            await nc.subscribe(subject, queue=QUEUE, cb=self._beside(handle))
        await nc.subscribe(subjects.AGENTS_ANSWER_ALL, cb=self._take_answer)
        try:
            await self._dependencies.stopping.wait()
        finally:
            for task in self._tasks:
                task.cancel()

    def _beside(self, handle: Handler) -> Handler:
        """Return what begins *handle* without waiting for it."""

        async def begin(message: Msg) -> None:
            task = asyncio.create_task(self._handle(handle, message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return begin

    async def _handle(self, handle: Handler, message: Msg) -> None:
        if not message.reply:
            return
        try:
            await handle(message)
        except ProblemError as error:
            await self._refuse(message, error.problem)
        except nats_errors.Error as error:
            self._dependencies.log.warning("an agent's answer was not sent", error=str(error))
        except Exception:
            self._dependencies.log.exception("an agent's answer failed", subject=message.subject)
            await self._refuse(message, problem("internal", "the answer failed"))

    async def _refuse(self, message: Msg, refusal: Problem) -> None:
        with suppress(nats_errors.Error):
            body = refusal.model_dump_json(exclude_defaults=True).encode()
            await self._send(message, body, error_headers(refusal))
            await self._send(message, b"")

    async def _info(self, message: Msg) -> None:
        caller = message.subject.rpartition(".")[2]
        async with self._turns.held(caller):
            project = await self._project_of(caller)
            listed: NetworkList = await self._dependencies.platform.request(
                rpc.LIST_NETWORKS, ListNetworks(project=project)
            )
        for network in listed.networks:
            info = agent_info(project, caller, network.name, network.version)
            await self._send(message, json.dumps(info).encode())

    async def _status(self, message: Msg) -> None:
        caller, session = message.subject.split(".")[3:]
        name = network_of(session)
        async with self._turns.held(caller):
            asked = ListNetworks(project=await self._project_of(caller), name=name, limit=1)
            await self._dependencies.platform.request(rpc.LIST_NETWORKS, asked)
        await self._send(message, json.dumps(agent_status(caller, session, wall().isoformat())).encode())

    async def _prompt(self, message: Msg) -> None:
        caller, session = message.subject.split(".")[3:]
        network, text = network_of(session), prompt_of(message.data)
        async with self._turns.held(caller):
            principal = await self._principal(caller, (message.headers or {}).get("Authorization"))
        for scope in CLIENT_SCOPES:
            require_scope(principal, scope)

        async def send(body: bytes) -> None:
            await self._send(message, body)

        with self._dependencies.stream_shares.held(principal):
            run = PromptedRun(self._dependencies, principal, send, self._questions)
            await send(status_chunk("ack"))
            await run.answer(network, text)
        await send(b"")

    async def _take_answer(self, message: Msg) -> None:
        """Give an answer to whoever waits for it; its subject names who was asked."""
        waiting = self._questions.get(message.subject)
        if waiting is not None and not waiting.done():
            waiting.set_result(message.data)

    async def _project_of(self, caller: str) -> str:
        project = await self._dependencies.keys.project_of(caller)
        if project is None:
            raise ProblemError(problem("caller_unknown", f"no key names the caller {caller!r}"))
        return project

    async def _principal(self, caller: str, header: str | None) -> Principal:
        """Return who prompts; raises ProblemError where a key is shown that is not this caller's."""
        if header is None:
            project = await self._project_of(caller)
            return Principal(caller=caller, actor=caller, project=project, scopes=CLIENT_SCOPES, roles=frozenset())
        found = split_key(bearer(header) or "")
        if found is None:
            raise ProblemError(problem("unauthenticated", "this is not a key of Towpath"))
        principal = await self._dependencies.keys.principal(*found)
        if principal.caller != caller:
            raise ProblemError(problem("unauthenticated", f"this is not a key of {caller}"))
        return principal

    async def _send(self, message: Msg, body: bytes, headers: dict[str, str] | None = None) -> None:
        await self._dependencies.platform.bus.nc.publish(message.reply, body, headers=headers)
