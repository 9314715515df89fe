"""The platform that is attacked: its address, keys for it, its database and its broker.

Its tools are those of `tests.attacks.tools`, what they may do is in `policy.yaml`, and what they did is in a file.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import asyncpg
import httpx2
from nats.aio.client import Client as NatsClient
from pydantic import SecretStr
from tests.attacks.tools import EFFECTS_VARIABLE, MAIL_VARIABLE

from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder
from towpath_fabric.clock import monotonic
from towpath_gateway.adapters.key_store import CreateKeyBody
from towpath_gateway.core.api_keys import SCOPES
from towpath_gateway.settings import GatewaySettings
from towpath_gateway.wiring import create_key

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ENDED = frozenset({"completed", "failed", "cancelled", "timed_out"})
TIMEOUT_S = 60
EFFECTS = "effects.txt"
MAIL = "mail.txt"
NETWORK: dict[str, Any] = {
    "kind": "Network",
    "name": "desk",
    "model": "scripted:task",
    "agents": [
        {
            "key": "clerk",
            "is_default": True,
            "equipped_tools": [
                "desk.mail",
                "desk.plans",
                "desk.remember",
                "desk.cards",
                "desk.send",
                "desk.label",
                "desk.notify",
                "desk.refund",
                "desk.program",
                "http.request",
            ],
            "allow_respond": True,
            "prompt_template": "You are {agent_key}. Do what the task says.\n{tools}\n{tool_history}",
        }
    ],
}


class PatientConnection(asyncpg.Connection):  # type: ignore[misc]
    """Says a statement again that was the one to give way: changing tables at work meets those who work there."""

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:
        """As in asyncpg; several statements at once are one transaction, of which nothing stays."""
        for _ in range(20):
            try:
                return str(await super().execute(query, *args, timeout=timeout))
            except asyncpg.DeadlockDetectedError:
                await asyncio.sleep(0.1)
        return str(await super().execute(query, *args, timeout=timeout))


class Target:
    """A running platform. Everything here is what a rightful user has; an attack makes the rest itself."""

    def __init__(self, platform: Platform, folder: Path, *, keys: bool) -> None:
        self.platform = platform
        self.folder = folder
        self.keys = keys
        self.mail = folder / MAIL

    @property
    def url(self) -> str:
        """The address of the gateway."""
        return self.platform.gateway_url

    async def key(
        self, caller: str, *, scopes: Sequence[str] = SCOPES, roles: Sequence[str] = (), project: str = "default"
    ) -> str:
        """Make an API key as whoever runs the platform does."""
        settings = GatewaySettings(database_url=SecretStr(self.platform.dsn("gateway")))
        return await create_key(settings, CreateKeyBody(caller=caller, scopes=scopes, roles=roles), project)

    @asynccontextmanager
    async def client(
        self,
        caller: str = "",
        *,
        scopes: Sequence[str] = SCOPES,
        roles: Sequence[str] = (),
        project: str = "default",
        as_caller: bool = False,
    ) -> AsyncIterator[httpx2.AsyncClient]:
        """Give a client with a new key of *caller*, of somebody new without one.

        Where the platform asks for no keys, it shows the token of who started it, unless *as_caller* asks for a key.
        """
        headers = self.platform.access.authorization()
        if self.keys or as_caller:
            name = caller or f"user-{uuid.uuid4().hex[:8]}"
            headers["Authorization"] = f"Bearer {await self.key(name, scopes=scopes, roles=roles, project=project)}"
        async with httpx2.AsyncClient(base_url=self.url, verify=False, headers=headers, timeout=TIMEOUT_S) as client:
            yield client

    def effects(self) -> list[str]:
        """Return what the tools have done so far, a line each."""
        return (self.folder / EFFECTS).read_text("utf-8").splitlines()

    async def run(
        self, client: httpx2.AsyncClient, calls: Sequence[tuple[str, Mapping[str, Any]]], message: str, **task: Any
    ) -> dict[str, Any]:
        """Run a task whose model asks for *calls* one after another; return the run when it ends or waits."""
        script = [decision("USE_TOOL", tool_name=name, tool_params=dict(params)) for name, params in calls]
        body = {
            "network": NETWORK["name"],
            "user_message": message,
            "script": [*script, decision("RESPOND", payload="done")],
            **task,
        }
        accepted = await client.post("/v1/runs", json=body)
        accepted.raise_for_status()
        return await self.settled(client, accepted.json()["run_id"])

    async def settled(self, client: httpx2.AsyncClient, run_id: str, within_s: float = TIMEOUT_S) -> dict[str, Any]:
        """Wait until the run has ended or waits for a person, and return it."""
        until = monotonic() + within_s
        while True:
            run: dict[str, Any] = (await client.get(f"/v1/runs/{run_id}")).json()
            if run["status"] in ENDED or await pending_gates(client, run_id):
                return run
            if monotonic() > until:
                raise TimeoutError(f"{run_id} is still {run['status']}")
            await asyncio.sleep(0.05)

    @asynccontextmanager
    async def database(self) -> AsyncIterator[Any]:
        """Give a connection to the database as its superuser."""
        connection = await asyncpg.connect(self.platform.dsn(), connection_class=PatientConnection)
        try:
            yield connection
        finally:
            await connection.close()

    @asynccontextmanager
    async def broker(self, user: str | None = None) -> AsyncIterator[NatsClient]:
        """Give a connection to the broker as one of its users, or without a credential.

        nats-py leaves the socket of a refused connection open until the client is closed.
        """
        url = self.platform.nats_url if user is None else self.platform.nats_url_of(user)
        prefix = b"_INBOX" if user is None else f"_INBOX_{user}".encode()
        connection = NatsClient()
        try:
            await connection.connect(url, inbox_prefix=prefix, allow_reconnect=False)
            yield connection
        finally:
            await connection.close()

    async def __aenter__(self) -> Self:
        """Publish the network."""
        async with self.client() as client:
            await _publish(client)
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Nothing is left to do: the platform is stopped by who started it."""


async def pending_gates(client: httpx2.AsyncClient, run_id: str) -> list[dict[str, Any]]:
    """Return what waits for a person in a run."""
    found: list[dict[str, Any]] = (await client.get(f"/v1/gates?run_id={run_id}&status=pending")).json()["gates"]
    return found


def decision(action: str, **details: Any) -> dict[str, Any]:
    """Return a decision as a model writes it."""
    return {"action": action, "action_reasoning": "as planned", "action_details": details}


async def _publish(client: httpx2.AsyncClient) -> None:
    until = monotonic() + TIMEOUT_S
    while True:
        published = await client.post("/v1/networks", json={"spec": NETWORK})
        if published.is_success:
            return
        if monotonic() > until:
            raise TimeoutError(published.text)
        await asyncio.sleep(0.2)


@asynccontextmanager
async def target(*, keys: bool) -> AsyncIterator[Target]:
    """Start a platform to attack, with or without API keys, and stop it."""
    with temporary_folder() as folder:
        for name in (EFFECTS, MAIL):
            (folder / name).touch()
        platform = Platform(
            folder / "data",
            role_environment={
                "tas": {"TOWPATH_POLICY_FILE": str(HERE / "policy.yaml")},
                "gateway": {"TOWPATH_AUTH": "on"} if keys else {},
            },
            workers=[
                WorkerLaunch(
                    modules=("tests.attacks.tools",),
                    builtin=True,
                    environment={
                        "TOWPATH_HTTP_ALLOW": "127.0.0.1",
                        "TOWPATH_HTTP_ALLOW_PRIVATE": "127.0.0.1",
                        "PYTHONPATH": str(ROOT),
                        EFFECTS_VARIABLE: str(folder / EFFECTS),
                        MAIL_VARIABLE: str(folder / MAIL),
                    },
                )
            ],
            durable=False,
            starts="fork",
        )
        async with platform, Target(platform, folder, keys=keys) as running:
            yield running
