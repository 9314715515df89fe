"""`towpath tools call`: a person has an agent's tool called, or asks what the policy would say to it.

The call is a run of one instruction, so it passes the matrix, waits at a gate and stands in the audit like any other:
there is no second way to a tool.
"""

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from towpath.cli.runs.run_command import show_result
from towpath.cli.runs.run_follower import RunFollower, ask_at_gate, print_gate_notice
from towpath.cli.shared.confirmation import Flag, is_interactive, require_yes
from towpath.cli.shared.exit_codes import DENIED, OK, RUN_FAILED, WAITING
from towpath.cli.shared.input_files import parse_json, read_text
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions
from towpath.cli.shared.output import Column
from towpath_contracts.base import JsonObject
from towpath_contracts.problems.near_names import suggest_name
from towpath_contracts.problems.registry import ProblemError, problem

if TYPE_CHECKING:
    from towpath.cli.shared.output import OutputPrinter
    from towpath.client.client import Client
    from towpath.tasks.task import TaskKeywords
    from towpath_contracts.events.log import GateOpened
    from towpath_contracts.runs.views import RunView

NAMED = 6
"""Agents that a message lists; `networks show` has all of them."""

_VERDICT = (
    Column("tool", "tool"),
    Column("agent", lambda row: f"{row['agent_key']} of {row['network']}"),
    Column("verdict", "verdict"),
    Column("rule", "rule"),
    Column("why", "detail", is_whole=True),
)
_EXIT_CODES = {"allow": OK, "deny": DENIED}


async def call(
    name: str,
    /,
    *,
    args: str = "{}",
    args_file: Annotated[Path | None, Parameter(allow_leading_hyphen=True)] = None,
    agent: Annotated[str | None, Parameter(name="--as")] = None,
    network: str | None = None,
    dry_run: Flag = False,
    yes: Flag = False,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> int:
    """Have a tool called in the name of an agent: decided by the policy, executed and recorded like any other call.

    The exit code is 0 where it was made, 1 where it failed, 4 where it was denied, 5 where it waits for a person.

    Args:
        name: The tool.
        args: Its arguments, a JSON object.
        args_file: Instead, a file with them; - is standard input.
        agent: The agent in whose name; needed where several have the tool.
        network: The network of that agent; needed where several have such an agent.
        dry_run: Only show what the policy would answer; nothing is called.
        yes: Don't ask before a tool that changes something; a script has to say it.
    """
    arguments = parse_json(args if args_file is None else read_text(args_file), str(args_file or "--args"))
    if not isinstance(arguments, dict):
        raise ProblemError(problem("request_invalid", "a tool takes a JSON object of arguments"))
    out = common.out()
    async with common.connect() as client:
        effects = {spec.name: spec.effect_class for spec in (await client.tools.list()).tools}
        if name not in effects:
            detail = f"no tool is called {name}{suggest_name(name, effects)}"
            raise ProblemError(problem("not_found", detail, remedy="List them: towpath tools list."))
        of_network, of_agent = await _caller(client, name, network, agent)
        if dry_run:
            verdict = await client.policy.check(network=of_network, agent_key=of_agent, tool=name, args=arguments)
            asked = {"network": of_network, "agent_key": of_agent, "tool": name, "args": arguments}
            out.record({**asked, **verdict.model_dump(mode="json")}, _VERDICT)
            return _EXIT_CODES.get(verdict.verdict, WAITING)
        if effects[name] != "pure":
            shown = json.dumps(arguments, ensure_ascii=False)
            require_yes(f"{name} changes something. Call it with {shown} as {of_agent} of {of_network}?", yes=yes)
        accepted = await client.submit(of_network, f"Try {name}", **_task(name, arguments, of_agent))
        out.write(f"  run {accepted.run_id}  {name} as {of_agent} of {of_network}", "bold")
        at_gate = ask_at_gate if out.for_people and is_interactive() else _leave_at_gate
        with contextlib.suppress(GateWaitsError):
            await RunFollower(client, out, at_gate).follow(accepted.run_id)
        code = await show_result(client, accepted.run_id, common)
        return _exit_code(await client.get(accepted.run_id), code)


class GateWaitsError(Exception):
    """The run waits for a person, and nobody is at this terminal to decide."""


async def _leave_at_gate(client: "Client", gate: "GateOpened", out: "OutputPrinter") -> None:
    await print_gate_notice(client, gate, out)
    raise GateWaitsError


def _task(tool: str, arguments: JsonObject, agent: str) -> "TaskKeywords":
    """Return the options of a run that carries out one call and ends: no model is asked."""
    details = {"tool_name": tool, "tool_params": arguments}
    decision = {"action": "USE_TOOL", "action_reasoning": "a person calls the tool", "action_details": details}
    return {"agent_key": agent, "model": "scripted:task", "script": [decision], "single_instruction": True}


async def _caller(client: "Client", tool: str, network: str | None, agent: str | None) -> tuple[str, str]:
    """Return the one network and agent that are meant; raises ProblemError that lists them where it is not one."""
    names = [network] if network is not None else [one.name for one in (await client.networks.list()).networks]
    found = []
    for name in names:
        snapshot = (await client.networks.show(name)).snapshot
        agents = {} if snapshot is None else snapshot.agents
        found += [(name, key) for key, one in agents.items() if tool in one.equipped_tools]
    fits = [pair for pair in found if agent in (None, pair[1])]
    if len(fits) == 1:
        return fits[0]
    listed = ", ".join(f"{key} of {name}" for name, key in (fits or found)[:NAMED])
    if fits:
        detail = f"{tool} is a tool of several agents: {listed}"
        raise ProblemError(problem("request_invalid", detail, remedy="Say which: --as AGENT --network NETWORK."))
    whose = f"; it is one of: {listed}" if found else ""
    who = f"{agent or 'no agent'}{f' of {network}' if network else ''}"
    detail = f"{tool} is no tool of {who}{whose}" if agent else f"{tool} is a tool of {who}"
    raise ProblemError(problem("not_found", detail, remedy="Look at a network's agents: towpath networks show NAME."))


def _exit_code(run: "RunView", code: int) -> int:
    """Return what became of the call: a run of one instruction completes, whatever that is."""
    if code != OK:
        return code
    results = run.final.get("results") if isinstance(run.final, dict) else None
    status = results[0].get("status") if results else None
    return {"succeeded": OK, "denied": DENIED}.get(str(status), RUN_FAILED)
