"""The way over NATS: requests on `task.<verb>.<caller>`, with the same answers as over HTTP.

The caller's name is part of the subject and the broker checks that the credential may use it; no project is sent,
since it follows from the caller.
"""

import asyncio
import os
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit
from uuid import UUID, uuid4

from nats import errors as nats_errors
from nats.aio.client import Client as Connection
from pydantic import BaseModel, ValidationError

from towpath.client.contexts import shown_address
from towpath.client.retry_policy import RetryBackoff, RetryNotice
from towpath.client.settings import is_same_place, local_broker_owner
from towpath.client.trees import merged
from towpath.errors import DeniedError, RefusedError, TowpathError, UnavailableError, error_from, unreachable
from towpath.inherited_objects import keep_inherited
from towpath_contracts import subjects
from towpath_contracts.base import JsonObject
from towpath_contracts.events.event_pages import EventPage
from towpath_contracts.events.log import LogEntry
from towpath_contracts.problems.input_faults import details_of, summary_of
from towpath_contracts.problems.registry import Problem, problem
from towpath_contracts.rpc import PROBLEM_HEADER
from towpath_contracts.runs.run_control import ClientGiveNote, ClientSteerRun, RunSteered, SteeringAct
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.runs.views import ActionDone, CancelRun, GetEvents, GetRun, RunView
from towpath_contracts.tasks import RunAccepted, SubmitTask
from towpath_fabric.addresses.broker_addresses import broker_addresses
from towpath_fabric.nats.broker_errors import PublishDeniedError
from towpath_fabric.nats.broker_owner import connect
from towpath_fabric.nats.clusters import CLUSTER_PING_S, is_clustered
from towpath_fabric.nats.login import LoginFileError, connect_options
from towpath_fabric.nats.request_sender import RequestSender
from towpath_fabric.settings import BrokerSettings
from towpath_readings.stream.deltas import DeltaEvent

A = TypeVar("A", bound=BaseModel)

CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 5.0
WAIT_MS = 20_000
"""How long the orchestrator holds a question for something new."""
STEERING_TIMEOUT_S = 30.0
"""A pause goes down a tree level by level."""
RETRY_S = 10.0
STREAM_RETRY_S = 120.0
_NOT_SENT = {"project", "actor", "effects", "key_prefix", "key_commitment"}
"""Fields that clients do not send: two follow from the caller in the subject, two are of an API key, which only HTTP
knows, and `effects` is on by itself."""

_PUBLISH_DENIED = re.compile(r'permissions violation for publish to "([^"]+)"', re.IGNORECASE)
_SUBSCRIBE_DENIED = re.compile(r'permissions violation for subscription to "([^"]+)"', re.IGNORECASE)
_OF_CALLER = re.compile(r"task\.[a-z]+\.([^.*>]+)")
"""The name in the subjects of a program that submits."""

_NEW_CREDENTIAL = (
    "On a deployment towpath clients credential add {caller} makes one for {caller}; start the broker again then."
)
_ACTS = {
    "submit": "begin runs",
    "get": "look at runs",
    "events": "read events",
    "cancel": "cancel runs",
    "note": "give notes",
    "pause": "pause runs",
    "resume": "resume runs",
}
"""What a client asks for, by the verb of its subject."""

_NO_LIVE_EVENTS = (
    "Without a user and password no live events are heard: read the events of a run page by page with "
    "Client(…).events(RUN_ID), or over HTTP with stream(RUN_ID). "
)


class NatsTransport:
    """Talks to a broker at *address* as *caller*. User and password belong into the address.

    An nkey, credentials and TLS are named by TOWPATH_NATS_NKEY_FILE, _CREDS_FILE, _TLS_CA, _TLS_CERT and _TLS_KEY.
    """

    def __init__(self, address: str, *, api_key: str | None, caller: str) -> None:
        """*api_key* is not sent: the broker checks its own users."""
        self.address = address
        self.retry_notice: RetryNotice | None = None
        self.retries = True
        self._caller = caller
        self._connection: Connection | None = None
        self._start_anew()

    def _start_anew(self) -> None:
        """Begin without a connection; one of the parent of a fork is left as it is, since it is the parent's."""
        keep_inherited(self._connection)
        self._process = os.getpid()
        self._connection = None
        self._requests: RequestSender | None = None
        self._opening = asyncio.Lock()
        self._fault = ""

    async def submit(self, task: SubmitTask, wait_s: float) -> RunAccepted | RunView:
        """Ask on `task.submit.<caller>`, repeated under the idempotency key while nobody answers."""
        return await self._retry(subjects.task_submit(self._caller), task, RunAccepted)

    async def get(self, run_id: UUID) -> RunView:
        """Ask on `task.get.<caller>`."""
        return await self._retry(subjects.task_get(self._caller), GetRun(project="", run_id=run_id), RunView)

    async def ended(self, run_id: UUID) -> RunView:
        """Let the orchestrator answer when the run has ended, or when its wait is over."""
        request = GetRun(project="", run_id=run_id, wait_ms=WAIT_MS)
        return await self._retry(subjects.task_get(self._caller), request, RunView, WAIT_MS / 1000)

    async def cancel(self, run_id: UUID, reason: str) -> ActionDone:
        """Ask on `task.cancel.<caller>`."""
        request = CancelRun(project="", run_id=run_id, actor=self._caller, reason=reason)
        return await self._retry(subjects.task_cancel(self._caller), request, ActionDone)

    async def steer(self, run_id: UUID, act: SteeringAct, text: str) -> RunSteered:
        """Ask on `task.<act>.<caller>`, once: a second note would be a second one."""
        subject, request = subjects.task_act(act, self._caller), _steering(run_id, act, text)
        requests = await self._open()
        return await self._ask(requests, subject, request, RunSteered, STEERING_TIMEOUT_S, repeat=False)

    async def events(self, run_id: UUID, after: int) -> AsyncGenerator[LogEntry]:
        """Yield events page by page; each question waits for the first new event."""
        subject = subjects.task_events(self._caller)
        while True:
            request = GetEvents(project="", run_id=run_id, after=after, wait_ms=WAIT_MS)
            page = await self._retry(subject, request, EventPage, WAIT_MS / 1000, STREAM_RETRY_S)
            for entry in page.entries:
                if entry.seq > after:
                    after = entry.seq
                    yield entry
            if page.status in FINAL_STATUSES and after >= page.seq:
                return

    async def follow(
        self, run_id: UUID, *, children: bool = False, deltas: bool = False
    ) -> AsyncGenerator[LogEntry | DeltaEvent]:
        """Yield events, with *children* run by run; refuses *deltas*, which clients of the broker may not receive."""
        if deltas:
            raise RefusedError(problem("request_invalid", "deltas are streamed over HTTP only: Client('http://…')"))
        source = merged(run_id, lambda run: self.events(run, 0)) if children else self.events(run_id, 0)
        async with aclosing(source) as entries:
            async for entry in entries:
                yield entry

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: JsonObject | None = None,
        query: dict[str, Any] | None = None,
        wait_s: float = 0.0,
    ) -> Any:
        """Refuse: only what concerns one task travels over NATS."""
        detail = f"{method} {path} works over HTTP only, and this client speaks NATS"
        remedy = "Make one with the address of the gateway: Client('http://127.0.0.1:8787'), as towpath up prints it."
        raise RefusedError(problem("request_invalid", detail, remedy=remedy))

    async def close(self) -> None:
        """Close the connection of this process."""
        if self._process != os.getpid():
            return
        connection, self._connection, self._requests = self._connection, None, None
        if connection is not None:
            await connection.close()

    async def _open(self) -> RequestSender:
        if self._process != os.getpid():
            self._start_anew()
        async with self._opening:
            if self._requests is None:
                self._connection = await self._connect()
                self._requests = RequestSender(self._connection)
            return self._requests

    async def _connect(self) -> Connection:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                connection = await connect(
                    broker_addresses(self.address),
                    name=f"towpath-client/{self._caller}",
                    inbox_prefix=f"_INBOX_client_{self._caller}.{uuid4().hex[:12]}",
                    error_cb=self._note,
                    max_reconnect_attempts=1,
                    reconnect_time_wait=0.25,
                    ping_interval=5,
                    max_outstanding_pings=2,
                    pending_size=0,
                    **self._login(),
                )
        except (OSError, TimeoutError, nats_errors.Error) as error:
            raise unreachable(shown_address(self.address), self._fault or str(error) or "no answer") from error
        if is_clustered(connection):
            connection.options["ping_interval"] = CLUSTER_PING_S
        connection.options["max_reconnect_attempts"] = -1  # give up soon where nobody ever was, later never
        return connection

    def _user(self) -> str | None:
        """Return the user that connects, empty where a file names it; None for a program without a credential."""
        for one in broker_addresses(self.address):
            if (user := urlsplit(one).username) is not None:
                return unquote(user)
        return "" if self._login().keys() & {"nkeys_seed", "user_credentials"} else None

    def _login(self) -> dict[str, Any]:
        """Return what the environment says of TLS and keys, and whose process the broker has to be.

        A password of the environment is the services' own, and the owner that it names is of the broker that it names.
        """
        try:
            named = BrokerSettings(nats_user=None, nats_password=None)
            settings = named.model_copy(update={"nats_url": self.address})
            owner = named.nats_owner if is_same_place(self.address, named.nats_url) else None
            return {"owner": local_broker_owner(self.address) if owner is None else owner, **connect_options(settings)}
        except (LoginFileError, ValidationError) as error:
            raise RefusedError(problem("request_invalid", str(error))) from error

    async def _note(self, error: Exception) -> None:
        """Remember what the connection last complained about; the next refusal says it."""
        self._fault = f"{type(error).__name__}: {error}".removesuffix(": ")
        if self._requests is not None and (denied := _PUBLISH_DENIED.search(self._fault)):
            self._requests.deny(denied[1].lower())

    async def _retry(
        self, subject: str, request: BaseModel, answer: type[A], wait_s: float = 0.0, retry_for_s: float = RETRY_S
    ) -> A:
        retry = RetryBackoff(retry_for_s if self.retries else 0.0, self.retry_notice)
        while True:
            requests = await self._open()  # an address where nobody answers is not tried again
            try:
                return await self._ask(requests, subject, request, answer, wait_s)
            except UnavailableError as error:
                await retry.wait(error, error.problem.retry_after_s or 0.0)

    async def _ask(
        self,
        requests: RequestSender,
        subject: str,
        request: BaseModel,
        answer: type[A],
        wait_s: float,
        *,
        repeat: bool = True,
    ) -> A:
        body = request.model_dump_json(exclude=_NOT_SENT).encode()
        limit_s = ANSWER_TIMEOUT_S + wait_s
        try:
            reply = await requests.request(subject, body, limit_s=limit_s, repeat=repeat, held_s=wait_s)
        except PublishDeniedError as error:
            raise DeniedError(_denied(subject, self._caller, self._user())) from error
        except (TimeoutError, nats_errors.Error) as error:
            raise self._silence(subject, error) from error
        if reply.headers and PROBLEM_HEADER in reply.headers:
            raise error_from(Problem.model_validate_json(reply.data))
        return answer.model_validate_json(reply.data)

    def _silence(self, subject: str, error: Exception) -> TowpathError:
        fault, self._fault = self._fault, ""
        return error_from(problem("unavailable", f"no answer on {subject} ({fault or type(error).__name__})"))


def tell_broker_error(error: Exception) -> str:
    """Return what nats-py hands to `error_cb`, in a program that connects by itself; a denial with what ends it."""
    said = str(error)
    asked, heard = _PUBLISH_DENIED.search(said), _SUBSCRIBE_DENIED.search(said)
    found = asked or heard
    if found is None:
        return said
    subject = found[1]
    told = f"forbidden: the broker does not let this program {'ask on' if asked else 'subscribe to'} {subject}"
    named = _OF_CALLER.match(subject)
    if named is None:
        return (
            f"{told}. It asks and hears on subjects with its own name alone, such as task.get.NAME and task.live.NAME.*"
        )
    caller = named[1]
    without = _NO_LIVE_EVENTS
    if not subject.startswith("task.live."):
        own = f"{subject[: named.start(1)]}{subjects.ANONYMOUS}{subject[named.end(1) :]}"
        without = f"Without a user and password ask on {own}. "
    with_one = f"With a credential put its own name in the place of {caller}. "
    return f"{told}. {without}{with_one}{_NEW_CREDENTIAL.format(caller=caller)}"


def _denied(subject: str, caller: str, user: str | None) -> Problem:
    """Return why the broker took no question on *subject*, whose own name *caller* is, from *user*."""
    asked = _ACTS.get(subject.split(".")[1], f"ask on {subject}")
    connect = f"Client('nats://{caller}:PASSWORD@HOST:PORT', caller='{caller}')"
    if user is None and caller == subjects.ANONYMOUS:
        detail = f"the broker does not let a program without a user and password {asked}"
        remedy = (
            f"Connect with a credential: {connect.replace(caller, 'NAME')}. {_NEW_CREDENTIAL.format(caller='NAME')}"
        )
    elif user is None:
        detail = (
            f"caller={caller!r} is named without the user and password of {caller}, so the broker does not let this "
            f"program {asked} as {caller}"
        )
        remedy = f"Leave caller= out; or, on a broker that lists {caller}, connect as it: {connect}."
    else:
        detail = f"the broker does not let {f'the user {user}' if user else 'this credential'} {asked} as {caller}"
        own = f"caller={user!r}" if user and user != caller else "caller=NAME (towpath clients credential list has it)"
        remedy = f"Name the caller that this credential is listed as: {own}."
        if caller != subjects.ANONYMOUS:
            remedy = f"{remedy} Or connect as {caller}: {connect}. {_NEW_CREDENTIAL.format(caller=caller)}"
        if subject in {subjects.task_act(act, caller) for act in ("pause", "resume")} and user == caller:
            remedy = (
                f"Let it operate runs: towpath clients credential add {caller} --operates; start the broker again then."
            )
    return problem("forbidden", detail, remedy=remedy)


def _steering(run_id: UUID, act: SteeringAct, text: str) -> BaseModel:
    """Return the request of an act; raises RefusedError, with every problem, for a text that none can have."""
    try:
        if act == "note":
            return ClientGiveNote(run_id=run_id, text=text)
        return ClientSteerRun(run_id=run_id, reason=text)
    except ValidationError as error:
        wrong = details_of(error)
        raise RefusedError(problem("request_invalid", summary_of(wrong), errors=wrong)) from None
