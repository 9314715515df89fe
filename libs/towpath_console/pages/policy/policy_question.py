"""What the policy would say of a call that nobody makes."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from towpath_console.api import ApiRefusalError
from towpath_console.page import Asked, Page
from towpath_console.pages.shared import if_allowed, together

ANSWERED = frozenset({400, 404, 409, 422})
"""Refusals that are about what was asked, and stand beside the form."""

NOTHING = "{}"

EXAMPLES: Mapping[str, Any] = {"integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}
"""What stands for an argument of a type until somebody writes another value; for every other type an ellipsis."""


async def simulate(asked: Asked) -> Page:
    """Make the form and, where the query names a call, what the policy says of it."""
    query = asked.query
    found = await together(
        networks=if_allowed(asked.api.get("/v1/networks")),
        tools=if_allowed(asked.api.get("/v1/tools")),
        agents=agents_of(asked, query.get("network", "")),
    )
    networks = [network["name"] for network in found["networks"].get("networks", ())]
    if networks and not query.get("network"):
        found["agents"] = await agents_of(asked, networks[0])  # the one that the form has chosen
    tools = {tool["name"]: tool for tool in found["tools"].get("tools", ())}
    parameters = (tools.get(query.get("tool", "")) or {}).get("parameters")
    written = query.get("args", "").strip()
    is_example = written in ("", NOTHING)
    args = example_of(parameters) if is_example else written
    verdict: Mapping[str, Any] = {}
    problem: Mapping[str, Any] = {}
    body: dict[str, Any] = {}
    if query.get("tool") and query.get("agent") and query.get("network"):
        try:
            body = _question(query, args, found["agents"])
            verdict = await asked.api.post("/v1/policy/check", body)
        except ApiRefusalError as error:
            if error.status not in ANSWERED:
                raise
            problem = error.problem
    view = {
        "verdict": verdict,
        "problem": problem,
        "question": body,
        "networks": networks,
        "agents": sorted(found["agents"]),
        "tools": sorted(tools),
        "parameters": parameters,
        "args": args,
        "is_example": is_example and args != NOTHING,
        "command": _command(body),
        "tab": "simulate",
    }
    return Page("Ask the policy", "policy/simulate.html", {"question": body, "verdict": verdict or problem}, view)


async def agents_of(asked: Asked, network: str) -> dict[str, Any]:
    """Return the agents of a network; none where there is no such network, or the caller may not see it."""
    if not network:
        return {}
    try:
        found = await if_allowed(asked.api.get(f"/v1/networks/{quote(network)}"))
    except ApiRefusalError as error:
        if error.status not in ANSWERED:
            raise
        return {}
    agents: dict[str, Any] = (found.get("snapshot") or {}).get("agents") or {}
    return agents


def example_of(parameters: Mapping[str, Any] | None) -> str:
    """Return the arguments that a tool can't do without, as JSON to be changed."""
    properties = (parameters or {}).get("properties") or {}
    return json.dumps({name: _example(properties.get(name) or {}) for name in (parameters or {}).get("required") or ()})


def _example(schema: Mapping[str, Any]) -> Any:
    if schema.get("enum"):
        return schema["enum"][0]
    return EXAMPLES.get(str(schema.get("type")), "...")


def _question(query: Mapping[str, str], written: str, agents: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the question as the API takes it; raises ApiRefusalError for arguments that are no JSON object."""
    try:
        args = json.loads(written)
    except (ValueError, RecursionError) as error:
        raise _no_arguments(f"they are no JSON: {error}") from error
    if not isinstance(args, dict):
        raise _no_arguments("they are no JSON object, such as {}")
    given = {name: query[name] for name in ("operation", "caller", "run_id") if query.get(name)}
    agent_type = agents.get(query["agent"], {}).get("agent_type")
    typed = {"agent_type": agent_type} if agent_type else {}
    named = {"network": query["network"], "agent_key": query["agent"], "tool": query["tool"]}
    return {**named, "args": args, **typed, **given}


def _no_arguments(detail: str) -> ApiRefusalError:
    problem = {"code": "request_invalid", "title": "The arguments can't be read", "detail": detail}
    return ApiRefusalError(400, problem | {"remedy": "Write them as JSON, as the agent would."})


def _command(body: Mapping[str, Any]) -> str:
    """Return the same question for a terminal; nothing where a shell could read it otherwise."""
    if not body:
        return ""
    words = [body["network"], body["agent_key"], body["tool"], json.dumps(body["args"], ensure_ascii=True)]
    if any("'" in word or not word.isprintable() for word in words):
        return ""
    network, agent, tool, args = words
    return f"towpath policy check --network '{network}' --agent '{agent}' --tool '{tool}' --args '{args}'"
