"""A project moves from one installation to another, as docs/scaling-out.md says: what goes along, and what stays."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from tests.support.places import ROOT
from tests.support.platform.marked_runs import NETWORK, TOOLS, script

from towpath.cli import main
from towpath.client.client import Client
from towpath.errors import TowpathError
from towpath_contracts.networks.spec import NetworkVersion
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_gateway.adapters.key_store import CreateKeyBody
from towpath_gateway.core.api_keys import SCOPES
from towpath_gateway.settings import GatewaySettings
from towpath_gateway.wiring import create_key

PROJECT = "shop"
POLICY = "kind: Policy\nrules:\n  - {name: looks, tool: 'mark.pure', effect: allow}  # nothing else\n"
CHANGED = {**NETWORK, "max_steps": 40}


@contextlib.asynccontextmanager
async def installation(folder: Path) -> AsyncIterator[tuple[Platform, Client, str]]:
    """A platform of its own, with a worker of the project, and an operator's client for it with its key."""
    environment = {"TOWPATH_TEST_EFFECTS": f"{folder}-effects.txt", "TOWPATH_PROJECT": PROJECT}
    tools = str(ROOT / "tests" / "support" / "worker" / "effect_tools.py")
    platform = Platform(
        folder,
        starts="fork",
        durable=False,
        role_environment={"gateway": {"TOWPATH_AUTH": "on"}},
        workers=[WorkerLaunch(modules=(tools,), environment=environment)],
    )
    async with platform:
        settings = GatewaySettings(database_url=SecretStr(platform.dsn("gateway")))
        body = CreateKeyBody(caller="ann", scopes=SCOPES, roles=("policy_admin", "operator"))
        key = await create_key(settings, body, PROJECT)
        async with Client(platform.gateway_url, api_key=key) as client:
            yield platform, client, key


async def publish(client: Client, spec: dict[str, Any]) -> NetworkVersion:
    """Publish a network once the worker has registered its tools."""
    for _ in range(600):
        try:
            return await client.networks.publish(spec)
        except TowpathError as error:
            last = error
        await asyncio.sleep(0.1)
    raise last


async def apply(client: Client, text: str, folder: Path) -> None:
    """Apply a policy from a file, as people do."""
    file = folder / "policy.yaml"
    await asyncio.to_thread(file.write_text, text, "utf-8")
    await client.policy.apply(file)


async def run(client: Client, number: int) -> Any:
    return await client.run("marks", f"run {number}", script=script(1, TOOLS[:1], number))


async def versions(client: Client) -> list[NetworkVersion]:
    newest = (await client.networks.show("marks")).version
    return [await client.networks.show("marks", version=number) for number in range(1, newest + 1)]


async def code_of(asking: Any) -> str:
    with pytest.raises(TowpathError) as caught:
        await asking
    return caught.value.code


async def test_a_project_goes_on_at_another_installation_and_its_history_stays_where_it_was(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        installation(folder / "old") as (_, old, old_key),
        installation(folder / "new") as (_, new, new_key),
    ):
        await apply(old, POLICY, folder)
        for spec in (NETWORK, CHANGED):
            await publish(old, spec)
        done = [await run(old, number) for number in range(2)]
        assert {one.status for one in done} == {"completed"}

        await old.quotas.set(unfinished_runs=0, reason="move")
        assert await code_of(old.submit("marks", "too late", script=script(1, TOOLS[:1], 9))) == "quota_exceeded"
        assert [use.used for use in (await old.quotas.show()).uses] == [0]

        await apply(new, (await old.policy.show()).text, folder)
        assert (await new.policy.show()).digest == (await old.policy.show()).digest
        for version in await versions(old):
            assert version.spec is not None
            await publish(new, version.spec)
        of_both = [[(one.version, one.digest) for one in await versions(client)] for client in (old, new)]
        assert of_both[0] == of_both[1], "the same versions under the same numbers"
        await new.quotas.set(unfinished_runs=100, tool_calls_per_minute=600)

        moved = await run(new, 3)
        assert (moved.status, moved.snapshot_digest) == ("completed", done[0].snapshot_digest)
        denied = await new.run("marks", "wipe", script=script(1, TOOLS[2:], 4))
        assert (denied.calls.asked, denied.calls.denied) == (1, 1), "its rights have come along"

        async with Client(new.server, api_key=old_key) as stranger:
            assert await code_of(stranger.runs()) == "unauthenticated"
        assert {one.run_id for one in (await old.runs()).runs} == {one.run_id for one in done}
        assert {one.run_id for one in (await new.runs()).runs} == {moved.run_id, denied.run_id}
        record = await asyncio.to_thread(exported, old, old_key, str(done[0].run_id), folder, capsys)
    assert await asyncio.to_thread(main, ["runs", "replay", "--file", str(record), "-o", "json"]) == 0
    assert new_key != old_key


def exported(client: Client, key: str, run_id: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """Write the record of a run into a file, which needs neither installation any more."""
    capsys.readouterr()
    assert main(["runs", "export", run_id, "--server", client.server, "--api-key", key]) == 0
    (folder / "record.jsonl").write_text(capsys.readouterr().out, "utf-8")
    return folder / "record.jsonl"
