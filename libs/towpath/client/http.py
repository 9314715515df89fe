"""The way over HTTP: the gateway's API, with events as a stream that takes itself up again.

Only what may be repeated is repeated: reads, and submits under their idempotency key. A stream remembers the last
seq it gave out and never gives out an event twice.
"""

import json
import os
import ssl
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

import httpx2
from pydantic import ValidationError

from towpath.client.contexts import shown_address
from towpath.client.retry_policy import RetryBackoff, RetryNotice
from towpath.errors import RefusedError, TowpathError, UnavailableError, error_from, unreachable
from towpath.inherited_objects import keep_inherited
from towpath_contracts.problems.registry import Problem, problem
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.runs.views import ActionDone, RunView

if TYPE_CHECKING:
    from towpath.client.cursors import RunStreamCursor
    from towpath.client.server_owner import ServerOwnerCheck
    from towpath_contracts.base import JsonObject
    from towpath_contracts.events.log import LogEntry
    from towpath_contracts.runs.run_control import RunSteered, SteeringAct
    from towpath_contracts.tasks import RunAccepted, SubmitTask
    from towpath_readings.stream.deltas import DeltaEvent

CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 30.0
SILENCE_S = 45.0
"""The gateway pings an idle stream every 15 s; three missed pings mean that the connection is lost."""
MAX_WAIT_S = 30.0
"""The longest `Prefer: wait` the gateway takes."""
MAX_EVENT_BYTES = 32 * 1024 * 1024
"""Twice the largest tool result, so that one event never ends a stream."""
PAGE_PAUSE_S = 0.5
"""Between two looks for new events where streams do not get through."""
SUBMIT_RETRY_S = 10.0
READ_RETRY_S = 10.0
STREAM_RETRY_S = 120.0
"""How long a stream may be without contact: longer than a gateway needs to be replaced."""


class HttpTransport:
    """Talks to a gateway at *address* with *api_key*."""

    def __init__(
        self,
        address: str,
        *,
        api_key: str | None,
        caller: str,
        check: "ServerOwnerCheck | None" = None,
        key_origin: str = "",
    ) -> None:
        """*caller* is not sent: over HTTP it follows from the key. *check* looks at every new connection.

        *key_origin* is where the key was found, for whoever is told that it is refused.
        """
        self.address, self._key_origin = address.rstrip("/"), key_origin
        self.retry_notice: RetryNotice | None = None
        self.retries = True
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        timeout = httpx2.Timeout(ANSWER_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        # Reading the certificates of all authorities takes 20 ms. Without TLS none is needed, and a context without
        # any trusts nobody.
        verify = self.address.startswith("https:") or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._open = partial(
            httpx2.AsyncClient,
            base_url=self.address,
            headers=headers,
            timeout=timeout,
            verify=verify,
            trust_env=check is None,  # what is meant for a process of this machine goes through no proxy
            event_hooks={} if check is None else {"request": [check.on_request]},
        )
        self._http, self._process = self._open(), os.getpid()
        self._answered_once = False

    def _connections(self) -> httpx2.AsyncClient:
        """Return the connections of this process; raises RefusedError once they are closed.

        Those of the parent of a fork are left as they are: answers to it would come here, and what is closed here would
        be closed for it too.
        """
        if self._process != os.getpid():
            keep_inherited(self._http)
            self._http, self._process = self._open(), os.getpid()
        if self._http.is_closed:
            remedy = "Make another client, or use this one inside its `with` block."
            raise RefusedError(problem("request_invalid", "this client has been closed", remedy=remedy))
        return self._http

    async def submit(self, task: "SubmitTask", wait_s: float) -> "RunAccepted | RunView":
        """POST /v1/runs, repeated under its idempotency key while the gateway can't be reached."""
        from towpath_contracts.tasks import RunAccepted

        wait_s = min(wait_s, MAX_WAIT_S)
        headers = {"Prefer": f"wait={int(wait_s)}"} if wait_s >= 1 else {}
        body = task.model_dump(mode="json", exclude_none=True)
        status, answer = await self._retry("POST", "/v1/runs", SUBMIT_RETRY_S, body, headers=headers)
        if status == httpx2.codes.OK and answer.get("status") in FINAL_STATUSES and "seq" in answer:
            return RunView.model_validate(answer)
        return RunAccepted.model_validate(answer)

    async def get(self, run_id: UUID) -> RunView:
        """GET /v1/runs/{id}."""
        return RunView.model_validate(await self.request("GET", f"/v1/runs/{run_id}"))

    async def ended(self, run_id: UUID) -> RunView:
        """GET /v1/runs/{id} with `Prefer: wait`."""
        headers = {"Prefer": f"wait={int(MAX_WAIT_S)}"}
        path = f"/v1/runs/{run_id}"
        _, answer = await self._retry("GET", path, READ_RETRY_S, None, headers=headers)
        return RunView.model_validate(answer)

    async def cancel(self, run_id: UUID, reason: str) -> ActionDone:
        """POST /v1/runs/{id}/cancel."""
        answer = await self.request("POST", f"/v1/runs/{run_id}/cancel", body={"reason": reason})
        return ActionDone.model_validate(answer if isinstance(answer, dict) else {})

    async def steer(self, run_id: UUID, act: "SteeringAct", text: str) -> "RunSteered":
        """POST /v1/runs/{id}/{act}."""
        from towpath_contracts.runs.run_control import RunSteered

        body: JsonObject = {"text" if act == "note" else "reason": text}
        return RunSteered.model_validate(await self.request("POST", f"/v1/runs/{run_id}/{act}", body=body))

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: "JsonObject | None" = None,
        query: dict[str, Any] | None = None,
        wait_s: float = 0.0,
    ) -> Any:
        """Do one operation; a read is repeated while the gateway can't be reached, anything else is not."""
        retry_for_s = READ_RETRY_S if method == "GET" else 0.0
        headers = {"Prefer": f"wait={int(min(wait_s, MAX_WAIT_S))}"} if wait_s >= 1 else None
        _, answer = await self._retry(method, path, retry_for_s, body, query=query, headers=headers)
        return answer

    def exchange(
        self, path: str, content: bytes, headers: dict[str, str]
    ) -> AbstractAsyncContextManager[httpx2.EventSource]:
        """POST *content*, whose answer is one document or a stream of events; nothing of it is repeated."""
        timeout = httpx2.Timeout(SILENCE_S, connect=CONNECT_TIMEOUT_S)
        return self._connections().sse(
            path, method="POST", content=content, headers=headers, timeout=timeout, max_event_size=MAX_EVENT_BYTES
        )

    async def close(self) -> None:
        """Close the connections of this process."""
        if self._process == os.getpid():
            await self._http.aclose()

    async def _retry(
        self,
        method: str,
        path: str,
        retry_for_s: float,
        body: "JsonObject | None",
        *,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any]:
        retry = RetryBackoff(retry_for_s if self.retries else 0.0, self.retry_notice)
        parameters = {name: value for name, value in (query or {}).items() if value is not None}
        while True:
            try:
                response = await self._connections().request(
                    method, path, json=body, params=parameters, headers=headers, timeout=ANSWER_TIMEOUT_S + MAX_WAIT_S
                )
            except httpx2.TransportError as error:
                await self._wait_after(retry, error)
                continue
            self._answered_once = True
            if response.is_success:
                return response.status_code, response.json() if response.content else {}
            refusal = error_of_response(response.status_code, response.content, self.address, self._key_origin)
            if not isinstance(refusal, UnavailableError):
                raise refusal
            await retry.wait(refusal, refusal.problem.retry_after_s or 0.0)

    async def events(self, run_id: UUID, after: int) -> "AsyncGenerator[LogEntry]":
        """Yield events by SSE, or by pages where streams do not get through; both resume after a drop."""
        from towpath.client.cursors import RunStreamCursor
        from towpath_contracts.events.log import LogEntry

        async with aclosing(self._follow(RunStreamCursor(run_id, after))) as entries:
            async for one in entries:
                if isinstance(one, LogEntry):
                    yield one

    async def follow(
        self, run_id: UUID, *, children: bool = False, deltas: bool = False
    ) -> "AsyncGenerator[LogEntry | DeltaEvent]":
        """Yield events, and pieces of what models write where they get through; both resume after a drop."""
        from towpath.client.cursors import RunStreamCursor

        cursor = RunStreamCursor(run_id, children=children, deltas=deltas)
        async with aclosing(self._follow(cursor)) as entries:
            async for one in entries:
                yield one

    async def _follow(self, cursor: "RunStreamCursor") -> "AsyncGenerator[LogEntry | DeltaEvent]":
        retry = RetryBackoff(STREAM_RETRY_S, self.retry_notice)
        while not cursor.ended:
            try:
                async with aclosing(self._pages(cursor) if cursor.by_page else self._stream(cursor)) as entries:
                    async for one in entries:
                        retry.reset()
                        yield one
                await self._wait_before_next(cursor, retry)
            except httpx2.TransportError as error:
                await self._wait_after(retry, error)
            except UnavailableError as error:
                await retry.wait(error, error.problem.retry_after_s or 0.0)

    async def _wait_after(self, retry: RetryBackoff, error: httpx2.TransportError) -> None:
        """Wait before the next try; an address where nobody has ever answered is not tried again."""
        unreachable_error = unreachable(
            shown_address(self.address), f"{type(error).__name__}: {error}".removesuffix(": ")
        )
        if not self._answered_once:
            raise unreachable_error from error
        await retry.wait(unreachable_error)

    async def _wait_before_next(self, cursor: "RunStreamCursor", retry: RetryBackoff) -> None:
        """Wait a moment after a stream that was closed, or a page that was read to its end."""
        if not cursor.ended:
            await retry.wait(unreachable(shown_address(self.address), "the stream keeps being closed"), PAGE_PAUSE_S)

    async def _stream(self, cursor: "RunStreamCursor") -> "AsyncGenerator[LogEntry | DeltaEvent]":
        """Read one SSE connection until it ends, for whatever reason."""
        for delta in cursor.superseded_deltas():
            yield delta
        timeout = httpx2.Timeout(SILENCE_S, connect=CONNECT_TIMEOUT_S)
        path = f"/v1/runs/{cursor.run_id}/events"
        async with self._connections().sse(
            path, params=cursor.query, headers=cursor.headers, timeout=timeout, max_event_size=MAX_EVENT_BYTES
        ) as source:
            self._answered_once = True
            if source.response.is_error:
                content = await source.response.aread()
                raise error_of_response(source.response.status_code, content, self.address, self._key_origin)
            if "text/event-stream" not in source.response.headers.get("content-type", ""):
                cursor.by_page = True
                return
            async for frame in source:
                if frame.event == "end":
                    cursor.ended = True
                    return
                if frame.event == "bye":
                    return
                if frame.event == "problem":
                    raise error_from(Problem.model_validate_json(frame.data))
                found = cursor.read(frame.event, frame.data, frame.id)
                if found is not None:
                    yield found

    async def _pages(self, cursor: "RunStreamCursor") -> "AsyncGenerator[LogEntry]":
        """Read what is there now; the run has ended when its status says so and nothing is left."""
        from towpath.client.trees import merged

        if cursor.children:
            async with aclosing(merged(cursor.run_id, lambda run_id: self.events(run_id, 0))) as entries:
                async for one in entries:
                    if cursor.accept(one):
                        yield one
            cursor.ended = True
            return
        while True:
            path, query = f"/v1/runs/{cursor.run_id}/events", {"after": cursor.after, "limit": 200}
            page = await self.request("GET", path, query=query)
            for written in page["entries"]:
                entry = _entry(json.dumps(written))
                if entry is not None and cursor.accept(entry):
                    yield entry
                cursor.skip_to(int(written["seq"]))
            if cursor.after >= page["seq"]:
                cursor.ended = page["status"] in FINAL_STATUSES
                return


def error_of_response(status: int, content: bytes, address: str = "", key_origin: str = "") -> TowpathError:
    """Return what an error answer says, also when something between us and the gateway made it.

    A refused credential is told with the *address* that was asked, and with where the key was found: whoever has
    several platforms asked another one, or has the key of another one.
    """
    try:
        found = Problem.model_validate_json(content)
        if address and found.code == "unauthenticated":
            key = f" (the key that was sent is that of {key_origin})" if key_origin else ""
            found = found.model_copy(update={"detail": f"{shown_address(address)}: {found.detail}{key}"})
        return error_from(found)
    except ValidationError:
        code = "unavailable" if status in {429, 502, 503, 504} else "internal"
        return error_from(
            problem(code, f"the server answered {status} without saying why").model_copy(update={"status": status})
        )


def _entry(text: str) -> "LogEntry | None":
    """Read an event; None for one of a kind that only a newer release knows."""
    from towpath_contracts.events.log import LogEntry

    try:
        return LogEntry.model_validate_json(text)
    except ValidationError:
        return None
