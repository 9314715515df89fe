"""`python -m tests.conversations`: twenty turns with each provider's API on a running platform, a line for each.

A platform with real NATS and Postgres, gateway, orchestrator, decider, tool-access service and worker; only the other
side of the wire to the models is a local server for each API. Each conversation reads a result of 300 KB in parts,
meets a limit that asks for 26 s, which are waited for, and a stream that is cut, and is continued by another run. The
exit status is 1 where answers differ, a prompt does not begin with the whole of the one before, less than 90 % of the
prompts from turn 2 on is a prefix that the cache has read, or a run does not end as it should.
"""

import argparse
import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from tests.conversations.checks import MESSAGE, PlayedConversation, differing, faults_of
from tests.conversations.model_server import REPLY, ConversationServer
from tests.support.decider.long_conversation import NATIVE, PROVIDERS, TURNS
from tests.support.decider.model_servers import DIALECTS, KEY

from towpath.client.client import Client
from towpath.errors import TowpathError
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder

TOOLS = ("page.fetch", "note.add", "crm.lookup")
POLICY = {"kind": "Policy", "rules": [{"name": one, "tool": one, "effect": "allow"} for one in TOOLS]}
AGENT = {"key": "triage", "is_default": True, "allow_respond": True, "equipped_tools": list(TOOLS)}
NETWORK = {
    "name": "desk",
    "agents": [{**AGENT, "prompt_template": "You answer questions about manuals."}],
    "max_steps": TURNS + 4,
    "context_limit": 200_000,
    "timeout_ms": 600_000,
}
START_S, RUN_S = 120.0, 600.0


def decider_environment(servers: Mapping[str, ConversationServer]) -> dict[str, str]:
    """Return the decider's settings: its providers are where *servers* answer."""
    return {
        **{f"{name.upper()}_API_KEY": KEY for name in servers},
        "TOWPATH_GEMINI_BASE_URL": servers["gemini"].url,
        "TOWPATH_OPENAI_BASE_URL": f"{servers['openai'].url}/v1",
        "TOWPATH_ANTHROPIC_BASE_URL": servers["anthropic"].url,
        "TOWPATH_NATIVE_TOOLS": json.dumps(NATIVE),
    }


@asynccontextmanager
async def platform(folder: Path, servers: Mapping[str, ConversationServer]) -> AsyncIterator[Client]:
    """Start a platform whose decider asks *servers*, with the network published; gives a client over HTTP."""
    (folder / "policy.yaml").write_text(json.dumps(POLICY), "utf-8")
    started = Platform(
        folder / "data",
        role_environment={
            "tas": {"TOWPATH_POLICY_FILE": str(folder / "policy.yaml")},
            "decider": decider_environment(servers),
        },
        workers=[WorkerLaunch(modules=(str(Path(__file__).with_name("tools.py")),))],
        durable=False,
        starts="fork",
    )
    async with started, Client(started.client_url) as client:
        async with asyncio.timeout(START_S):
            while not await _published(client):  # noqa: ASYNC110 - nothing announces tools
                await asyncio.sleep(0.2)
        yield client


async def _published(client: Client) -> bool:
    with contextlib.suppress(TowpathError):
        await client.networks.publish(NETWORK)
        return True
    return False


async def converse(client: Client, server: ConversationServer) -> PlayedConversation:
    """Have one provider's conversation, and continue it."""
    dialect = server.dialect
    run = await client.run("desk", MESSAGE, model=f"{dialect.name}:{dialect.model}", timeout=RUN_S)
    reply = await client.reply(run.run_id, REPLY, timeout=RUN_S)
    events = [entry.event.type async for entry in client.events(run.run_id)]
    return PlayedConversation(
        name=dialect.name,
        run=run.model_dump(mode="json"),
        reply=reply.model_dump(mode="json"),
        asked=server.seen,
        at=server.at,
        postponed=events.count("decision_postponed"),
    )


async def play(names: Sequence[str]) -> list[PlayedConversation]:
    """Have the conversations with all these providers at the same time, on one platform."""
    with temporary_folder() as folder, ExitStack() as stack:
        servers = {name: ConversationServer(DIALECTS[name]) for name in PROVIDERS}
        for server in servers.values():
            stack.callback(server.close)
        async with platform(folder, servers) as client:
            return list(await asyncio.gather(*(converse(client, servers[name]) for name in names)))


def main(words: Sequence[str] | None = None) -> int:
    """Have the conversations that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.conversations", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="PROVIDER", help=f"{', '.join(PROVIDERS)}; all without one")
    options = parser.parse_args(words)
    unknown = sorted(set(options.names) - set(PROVIDERS))
    if unknown:
        parser.error(f"there is no provider {', '.join(unknown)} here")
    played = asyncio.run(play(options.names or PROVIDERS))
    faults = [*(fault for one in played for fault in faults_of(one)), *differing(played)]
    for line in (*(one.line for one in played), *faults):
        sys.stdout.write(line + "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
