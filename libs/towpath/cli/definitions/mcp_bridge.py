"""Hands messages of an MCP client that speaks by lines (stdio) to the MCP server of a platform, and answers back.

Nothing is decided here: each message is sent as it came, with the credential of this machine's user, and what the
gateway answers is passed on. A platform that is away is told as an error of each request, so that a client that was
started first works once the platform does.
"""

import asyncio
import base64
import collections
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import httpx2

from towpath.client.contexts import shown_address
from towpath.client.http import HttpTransport, error_of_response
from towpath.errors import RefusedError, problem_of, unreachable
from towpath_contracts.problems.registry import Problem, problem
from towpath_contracts.text import join_sentences

if TYPE_CHECKING:
    from towpath.client.client import Client

MCP_PATH = "/mcp"
DRAIN_S = 2.0
"""How long answers that are under way may take once the client says no more; runs go on without them."""

MAX_LINE_BYTES = 2 * 1024 * 1024
"""Of one message: the gateway takes half of it."""

INVALID, UNREADABLE, INTERNAL = -32600, -32700, -32603

_VERSION = "io.modelcontextprotocol/protocolVersion"
_NAMED = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""Methods with the parameter that their requests repeat in a header."""

_PLAIN = re.compile(r"(?!=\?base64\?)[!-~]([ -~]*[!-~])?")

Json = dict[str, Any]


class McpBridge:
    """Serves one client. *connect* makes what messages go over; *write* takes each line for the client."""

    def __init__(self, connect: "Callable[[], Client]", write: Callable[[str], None]) -> None:
        self._connect = connect
        self._write = write
        self._client: Client | None = None
        self._uses: collections.Counter[Client] = collections.Counter()
        self._version = ""
        self._under_way: dict[str, asyncio.Task[None]] = {}

    async def serve(self, lines: AsyncIterator[bytes]) -> None:
        """Hand on every line until there are no more, and then what is still answered within DRAIN_S."""
        try:
            async for line in lines:
                if line.strip():
                    await self._take(line)
            if self._under_way:
                await asyncio.wait(self._under_way.values(), timeout=DRAIN_S)
        finally:
            tasks = list(self._under_way.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._client is not None:
                await self._client.close()

    async def _take(self, line: bytes) -> None:
        if len(line) > MAX_LINE_BYTES:
            self._fail(None, INVALID, f"a message has at most {MAX_LINE_BYTES} bytes")
            return
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._fail(None, UNREADABLE, "this line is no JSON")
            return
        if not isinstance(message, dict):
            self._fail(None, INVALID, "one message a line")
            return
        method, named = message.get("method"), json.dumps(message.get("id"))
        if method == "notifications/cancelled":
            given_up = self._under_way.get(json.dumps(_parameters(message).get("requestId")))
            if given_up is not None:  # the gateway hears of it by the end of the connection
                given_up.cancel()
        elif isinstance(method, str):
            task = asyncio.create_task(self._hand_on(_Asked(message), line))
            if "id" in message:
                self._under_way[named] = task
                task.add_done_callback(lambda done: self._ended(named, done))
            if method == "initialize" or "id" not in message:  # what follows goes by what it says
                await asyncio.wait({task})

    def _ended(self, named: str, task: asyncio.Task[None]) -> None:
        if self._under_way.get(named) is task:
            del self._under_way[named]

    async def _hand_on(self, asked: "_Asked", line: bytes) -> None:
        """Have a message answered once: one without an answer holds its client up for good, a second breaks it."""
        why = problem("unavailable", "the gateway ended its answer before it said anything")
        try:
            await self._exchange(asked, line)
        except Exception as error:  # noqa: BLE001 - whatever it was, the client has to hear of it
            why = problem_of(error)
        if asked.waits:
            self._refuse(asked.message["id"], why)

    async def _exchange(self, asked: "_Asked", line: bytes) -> None:
        async with self._borrowed() as client:
            try:
                async with _transport(client).exchange(MCP_PATH, line.strip(), self._headers(asked.message)) as source:
                    await self._pass_on(asked, source, client)
            except httpx2.TransportError as error:
                self._forget(client)
                detail = f"{type(error).__name__}: {error}".removesuffix(": ")
                raise unreachable(shown_address(client.server), detail) from error

    async def _pass_on(self, asked: "_Asked", source: httpx2.EventSource, client: "Client") -> None:
        response = source.response
        if "text/event-stream" not in response.headers.get("content-type", ""):
            content = await response.aread()
            if response.status_code == HTTPStatus.UNAUTHORIZED:
                self._forget(client)  # the platform may have been started anew, with another token
            if asked.waits:
                self._answer(asked, response.status_code, content)
            return
        async for frame in source:
            if frame.data:
                self._told(asked, frame.data)

    def _answer(self, asked: "_Asked", status: int, content: bytes) -> None:
        """Pass one document on; what is no message of the protocol is why the gateway refused."""
        try:
            found = json.loads(content)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict) and "jsonrpc" in found:
            self._told(asked, json.dumps(found, ensure_ascii=False))
            return
        raise error_of_response(status, content)

    def _told(self, asked: "_Asked", text: str) -> None:
        found = json.loads(text)
        if asked.is_answered_by(found):
            asked.waits = False
            if asked.message.get("method") == "initialize":
                self._version = str((found.get("result") or {}).get("protocolVersion") or "")
        self._write(text.replace("\n", " "))

    def _headers(self, message: Json) -> dict[str, str]:
        """Return what a request says of itself beside its body."""
        known = _parameters(message)
        meta = known.get("_meta")
        modern = meta.get(_VERSION) if isinstance(meta, dict) else None
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        if modern:
            headers |= {"MCP-Protocol-Version": str(modern), "Mcp-Method": _header(str(message["method"]))}
            name = known.get(_NAMED.get(message["method"], ""))
            if isinstance(name, str):
                headers["Mcp-Name"] = _header(name)
        elif self._version:
            headers["MCP-Protocol-Version"] = self._version
        return headers

    @contextlib.asynccontextmanager
    async def _borrowed(self) -> "AsyncIterator[Client]":
        """Yield the client; one that is forgotten is closed by the last request that goes over it."""
        if self._client is None:
            self._client = self._connect()
        client = self._client
        self._uses[client] += 1
        try:
            yield client
        finally:
            self._uses[client] -= 1
            if not self._uses[client]:
                del self._uses[client]
                if client is not self._client:
                    await client.close()

    def _forget(self, client: "Client") -> None:
        """Have the next message make another connection."""
        if client is self._client:
            self._client = None

    def _refuse(self, named: Any, why: Problem) -> None:
        data = why.model_dump(mode="json", exclude_defaults=True)
        self._fail(named, INTERNAL, join_sentences(f"{why.code}: {why.detail}", why.remedy), data)

    def _fail(self, named: Any, code: int, text: str, data: Json | None = None) -> None:
        error = {"code": code, "message": text, **({} if data is None else {"data": data})}
        self._write(json.dumps({"jsonrpc": "2.0", "id": named, "error": error}, ensure_ascii=False))


class _Asked:
    """A message of the client, and whether it waits for an answer still."""

    def __init__(self, message: Json) -> None:
        self.message = message
        self.waits = "id" in message

    def is_answered_by(self, found: Any) -> bool:
        """Return whether *found* is the answer to this message, and neither a notice nor a question of the server."""
        return isinstance(found, dict) and "method" not in found and found.get("id", self) == self.message.get("id")


async def read_lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield each line without its end; of one of more than MAX_LINE_BYTES the beginning, one byte longer than that."""
    held = bytearray()
    while piece := await reader.read(MAX_LINE_BYTES):
        *ended, rest = piece.split(b"\n")
        for part in ended:
            yield bytes(held + part)[: MAX_LINE_BYTES + 1]
            held.clear()
        held += rest
        del held[MAX_LINE_BYTES + 1 :]
    if held:
        yield bytes(held)


def _parameters(message: Json) -> Json:
    found = message.get("params")
    return found if isinstance(found, dict) else {}


def _transport(client: "Client") -> HttpTransport:
    transport = client._transport  # the same connections and checks as the client's own requests
    if not isinstance(transport, HttpTransport):
        detail = f"{shown_address(client.server)} is no address of a gateway"
        raise RefusedError(
            problem(
                "server_unreachable",
                detail,
                remedy="Name the gateway: --server http://127.0.0.1:8787, or where yours listens.",
            )
        )
    return transport


def _header(text: str) -> str:
    """Return *text* as a header carries it: encoded, where it would not arrive as it is."""
    if _PLAIN.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'replace')).decode('ascii')}?="
