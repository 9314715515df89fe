"""MCP servers behind the real tool-access service: two of other people, and one whose tools change under way."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.docs_site.shell_blocks import shell_commands
from tests.docs_site.taken_blocks import taken
from tests.support.gateway.gateway_process import gateway_process
from tests.support.tas.tas_caller import TasCaller, row
from tests.support.tas.tas_running import Shared, shared_tas
from tests.support.waiting import eventually
from tests.support.worker import hostile_mcp
from tests.support.worker.running_worker import Serving, serving

from towpath.cli import main
from towpath.project.mcp_servers import load_servers
from towpath_contracts import rpc
from towpath_contracts.tools.access import ToolsDescribed
from towpath_embedded.processes.ports import free_port

__all__ = ["shared_tas"]

BIN = Path(sys.executable).parent
TOKEN = "canary-7c21-mcp-token"

REAL = """
servers:
  time:
    command: {bin}/mcp-server-time
    args: [--local-timezone, UTC]
    tools:
      get_current_time: {{effect_class: pure, operation: read}}
  sheets:
    url: http://127.0.0.1:{port}/mcp
    headers: {{Authorization: "Bearer ${{env:MCP_TEST_TOKEN}}"}}
    allow: [create_workbook, write_range, read_range]
"""
BAD = """
servers:
  bad:
    command: {python}
    args: [{script}]
    env: {{HOSTILE_TOOLS: "{tools}"}}
    protocol: legacy
    allow: [echo, die, kept]
"""

OFFICIAL = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("stock")


@server.tool()
def count(item: str{more}) -> str:
    \"\"\"Count an item.\"\"\"
    return "7 " + item


server.run("stdio")
"""


@contextmanager
def sheets_server(folder: Path, port: int) -> Iterator[None]:
    """The server of the package excel-mcp-server, over streamable HTTP, with a bearer token."""
    command = [BIN / "excel-mcp-server", "streamable-http", "--port", str(port), "--allow-dir", folder]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "EXCEL_MCP_AUTH_TOKEN": TOKEN}
    with (folder / "sheets.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.kill()
            process.wait()


@asynccontextmanager
async def gateway(shared: Shared, folder: Path) -> AsyncIterator[str]:
    """A gateway that asks for no key, whose project is `default`; gives its address."""
    with gateway_process(folder, shared.nats.url(), embedded="1") as process:
        await process.wait_ready()
        yield process.url


@asynccontextmanager
async def working(
    shared: Shared, written: str, folder: Path, project: str = ""
) -> AsyncIterator[tuple[TasCaller, Serving]]:
    """A worker with the servers of a file, in the project that is named, else in one of its own."""
    file = folder / "servers.yaml"
    file.write_text(written)
    project = project or f"p{os.urandom(6).hex()}"
    async with (
        TasCaller(shared.nats.url(), project) as caller,
        serving(shared.nats.url(), tools=(), project=project, servers=load_servers(file)) as worker,
    ):
        await eventually(lambda: worker.worker._registration.done, within_s=60)
        yield caller, worker


async def tools_of(caller: TasCaller) -> ToolsDescribed:
    found: ToolsDescribed = await caller.ask(rpc.DESCRIBE_TOOLS, project=caller.project, proposals=True)
    return found


async def put(caller: TasCaller, tool: str, **args: Any) -> Any:
    return await caller.put(caller.request(tool, toolset=tool.partition(".")[0], args=args))


async def result(caller: TasCaller, tool: str, **args: Any) -> Any:
    fact = await caller.fact(await put(caller, tool, **args), "tool.finished")
    assert fact["status"] == "succeeded", fact
    return fact["result"]


async def denial(caller: TasCaller, tool: str, **args: Any) -> dict[str, Any]:
    fact: dict[str, Any] = (await caller.fact(await put(caller, tool, **args), "tool.denied"))["denial"]
    return fact


async def test_two_servers_of_other_people_work_behind_the_matrix(
    shared_tas: Shared, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_TEST_TOKEN", TOKEN)
    port = free_port()
    with sheets_server(folder, port):
        async with working(shared_tas, REAL.format(bin=BIN, port=port), folder) as (caller, worker):
            await eventually_tools(caller, "time.get_current_time", "sheets.read_range")
            specs = {spec.name: spec for spec in (await tools_of(caller)).tools}
            assert specs["time.convert_time"].effect_class == "irreversible"  # though its server hints "read only"
            assert specs["time.get_current_time"].effect_class == "pure"
            assert worker.count("towpath_worker_source_up", toolset="sheets") == 1
            assert all(spec.discovered and not spec.trusted_output for spec in specs.values() if not spec.internal)
            await caller.apply('{kind: Policy, rules: [{name: all, tool: "*", effect: allow}]}')
            denied = await denial(caller, "time.get_current_time", timezone="UTC")
            assert denied["violation_type"] == "permission_denied"  # a wildcard opens nothing that was discovered
            await caller.apply(
                "{kind: Policy, rules: ["
                '{name: time, tool: "time.*", discovered: true, effect: allow},'
                "{name: make, tool: sheets.create_workbook, effect: allow},"
                "{name: write, tool: sheets.write_range, effect: allow},"
                "{name: read, tool: sheets.read_range, effect: allow}]}"
            )
            assert (await result(caller, "time.get_current_time", timezone="UTC"))["timezone"] == "UTC"
            place = str(folder / "book.xlsx")
            await result(caller, "sheets.create_workbook", **created(specs, place))
            assert await asyncio.to_thread(Path(place).exists)
            body = json.dumps([entry.model_dump(mode="json") for entry in await caller.audit()])
            assert TOKEN not in body


def created(specs: dict[str, Any], place: str) -> dict[str, Any]:
    """Return the arguments that this version of the server wants for a new workbook."""
    required = specs["sheets.create_workbook"].parameters["required"]
    return {required[0]: place}


async def until(caller: TasCaller, true: Callable[[ToolsDescribed], bool]) -> ToolsDescribed:
    """Wait until *true* says so of what the platform knows of the tools."""
    for _ in range(600):
        if true(described := await tools_of(caller)):
            return described
        await asyncio.sleep(0.1)
    raise AssertionError(f"held: {described.held}; known: {[spec.name for spec in described.tools]}")


async def eventually_tools(caller: TasCaller, *names: str) -> None:
    """Wait until the platform knows the tools."""
    await until(caller, lambda described: set(names) <= {spec.name for spec in described.tools})


async def held(caller: TasCaller, *names: str) -> ToolsDescribed:
    """Wait until the calls of exactly these tools are held."""
    return await until(caller, lambda described: set(described.held) == set(names))


async def test_a_tool_that_its_server_defines_anew_is_held_until_somebody_accepts_it(
    shared_tas: Shared, folder: Path
) -> None:
    tools = folder / "tools.json"
    tools.write_text(json.dumps(hostile_mcp.TOOLS))
    written = BAD.format(python=sys.executable, script=hostile_mcp.__file__, tools=tools)
    async with working(shared_tas, written, folder) as (caller, worker):
        rules = ", ".join(f"{{name: {name}, tool: bad.{name}, effect: allow}}" for name in ("echo", "die", "kept"))
        await caller.apply(f"{{kind: Policy, rules: [{rules}]}}")
        assert json.loads(await result(caller, "bad.echo", text="hello"))["text"] == "hello"

        changed = [{**tool, "description": "Now I send it to somebody."} for tool in hostile_mcp.TOOLS[:1]]
        tools.write_text(json.dumps([*changed, *hostile_mcp.TOOLS[1:]]))
        assert await result(caller, "bad.kept") == {"count": 3}  # after it the server says that its tools changed
        described = await held(caller, "bad.echo")
        assert [(one.spec.name, one.version, one.held) for one in described.proposals] == [("bad.echo", 2, True)]
        assert worker.count("towpath_worker_tools_held", toolset="bad") == 1
        denied = await denial(caller, "bad.echo", text="hello")
        assert denied["violation_type"] == "tool_drifted"
        assert "its calls are held until version 2 is accepted" in denied["reason"]
        assert "towpath tools diff bad.echo --version 2" in denied["suggestion"]

        tools.write_text(json.dumps(hostile_mcp.TOOLS))
        assert await result(caller, "bad.kept") == {"count": 3}
        await held(caller)  # the server says again what was accepted
        tools.write_text(json.dumps([*changed, *hostile_mcp.TOOLS[1:]]))
        assert await result(caller, "bad.kept") == {"count": 3}
        described = await held(caller, "bad.echo")
        assert [(one.version, one.status) for one in described.proposals] == [(2, "pending")]

        await caller.ask(
            rpc.DECIDE_PROPOSAL, project=caller.project, name="bad.echo", version=2, accept=True, actor="ann"
        )
        await held(caller)
        request = await put(caller, "bad.echo", text="again")
        fact = await caller.fact(request, "tool.finished")
        if fact["status"] == "failed":  # the worker asks every few seconds whether it was accepted
            assert fact["failure"]["code"] == "tool_drifted"
        listed = [entry.phase for entry in await caller.audit(tool="bad.echo") if entry.phase.startswith("tool.")]
        assert listed == [
            *("tool.registered", "tool.proposed", "tool.drifted", "tool.restored", "tool.drifted", "tool.accepted")
        ]

        lost = await put(caller, "bad.die")
        assert (await caller.fact(lost, "tool.finished"))["failure"]["code"] == "outcome_unknown"
        assert (await row(shared_tas.dsn, lost.execution_id))["status"] == "unknown"


@pytest.mark.prints("tools diff", "tools refuse", "tools accept", "tools withdraw")
async def test_a_server_of_the_official_package_that_is_started_with_another_schema_is_held_until_somebody_accepts_it(
    shared_tas: Shared, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ask(*words: str) -> Any:
        assert main(["tools", *words, "-o", "json"]) in {0, None}
        return json.loads(capsys.readouterr().out)

    async def decide(word: str, name: str, version: int, *more: str) -> Any:
        return await asyncio.to_thread(ask, word, name, "--version", str(version), *more)

    script = folder / "stock.py"
    written = f"servers: {{stock: {{command: {sys.executable}, args: [{script}]}}}}"
    script.write_text(OFFICIAL.format(more=""))
    async with working(shared_tas, written, folder, "default") as (caller, _):
        await caller.apply("{kind: Policy, rules: [{name: count, tool: stock.count, effect: allow}]}")
        assert "7 nuts" in json.dumps(await result(caller, "stock.count", item="nuts"))
        project = caller.project

    script.write_text(OFFICIAL.format(more=", warehouse: str"))
    async with working(shared_tas, written, folder, project) as (caller, _), gateway(shared_tas, folder) as server:
        monkeypatch.setenv("TOWPATH_SERVER", server)
        (proposal,) = (await held(caller, "stock.count")).proposals
        assert (proposal.version, proposal.held) == (2, True)
        assert "warehouse" in proposal.spec.parameters["required"]
        denied = await denial(caller, "stock.count", item="nuts")
        assert denied["violation_type"] == "tool_drifted"
        assert "towpath tools diff stock.count --version 2" in denied["suggestion"]
        told = denied["explanation"]
        assert told["detail"].startswith("stock.count changed since it was accepted (digest sha256:")
        assert told["remedy"].startswith("Review: towpath tools diff stock.count --version 2")

        shown = taken("docs/mcp.md: towpath tools proposals").text.replace("time.convert_time", "stock.count")
        proposals, diff, accept = (command.words[2:] for command in shell_commands(shown, {}))
        waiting = await asyncio.to_thread(ask, *proposals)
        assert "stock.count" in json.dumps(waiting)
        changed = await asyncio.to_thread(ask, *diff)
        assert (changed["version"], changed["was"]) == (2, 1)
        assert any("warehouse" in line for line in changed["changes"])
        await decide("refuse", "stock.count", 2, "--reason", "which warehouses?")
        await held(caller, "stock.count")
        await asyncio.to_thread(ask, *accept)
        await held(caller)
        for _ in range(60):
            request = await put(caller, "stock.count", item="nuts", warehouse="east")
            if (fact := await caller.fact(request, "tool.finished"))["status"] == "succeeded":
                break
            assert fact["failure"]["code"] == "tool_drifted"  # the worker asks every few seconds what was accepted
            await asyncio.sleep(1)
        assert "7 nuts" in json.dumps(await result(caller, "stock.count", item="nuts", warehouse="east"))
        await decide("withdraw", "stock.count", 2, "--reason", "the stock moved")
        assert (await denial(caller, "stock.count", item="nuts"))["violation_type"] == "tool_unknown"
