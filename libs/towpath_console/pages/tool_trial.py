"""A call of a tool that a person tries: a run of one instruction, permitted, executed and recorded like any other."""

import json
from collections.abc import Mapping
from typing import Any

from towpath_console.api import Api, ApiRefusalError
from towpath_console.page import ActionRoute, Asked, Done
from towpath_console.pages.names import checked_name
from towpath_console.pages.shared import if_allowed

Json = dict[str, Any]
_SAMPLES: Mapping[str, Any] = {"string": "", "number": 0, "integer": 0, "boolean": False, "array": [], "object": {}}


async def trial_of(api: Api, spec: Mapping[str, Any], network: str) -> Json:
    """Return what the form of a trial shows: the networks, and of a chosen one the agents that have the tool."""
    listed = await if_allowed(api.get("/v1/networks"))
    names = [one["name"] for one in listed.get("networks", ())]
    agents: list[str] = []
    if network:
        found = await api.get(f"/v1/networks/{checked_name(network, 'network')}")
        equipped = found["snapshot"]["agents"].items()
        agents = [key for key, agent in equipped if spec["name"] in agent["equipped_tools"]]
    return {"networks": names, "network": network, "agents": agents, "sample": sample_of(spec)}


def sample_of(spec: Mapping[str, Any]) -> str:
    """Return arguments to begin with: those that are required and that a model may set, empty."""
    schema = spec.get("parameters") or {}
    hidden = set(spec.get("system_params") or ())
    told = schema.get("properties") or {}
    names = [name for name in schema.get("required") or () if name not in hidden]
    kinds = {name: told[name].get("type") if isinstance(told.get(name), Mapping) else None for name in names}
    return json.dumps({name: _SAMPLES.get(str(kind), "") for name, kind in kinds.items()}, indent=2)


async def try_call(asked: Asked, form: Mapping[str, str]) -> Done:
    """Have the call made in the name of an agent, and go to its run."""
    name = asked.path["tool"]
    checked_name(name, "tool")
    try:
        arguments = json.loads(form.get("arguments") or "{}")
    except ValueError as error:
        problem = {"code": "request_invalid", "title": "The arguments are no JSON", "detail": str(error)}
        raise ApiRefusalError(422, problem) from error
    described = await asked.api.get("/v1/tools", name=name)
    effects = {tool["name"]: tool["effect_class"] for tool in described["tools"]}
    if effects.get(name) != "pure" and form.get("confirmed") != "yes":
        detail = f"{name} changes something: tick the box that says so"
        remedy = "Go back and say that the call is meant for real. Nothing was called."
        problem = {"code": "request_invalid", "title": "The call was not confirmed", "detail": detail}
        raise ApiRefusalError(422, problem | {"remedy": remedy})
    details = {"tool_name": name, "tool_params": arguments}
    decision = {"action": "USE_TOOL", "action_reasoning": "a person tries the tool", "action_details": details}
    task: Json = {
        "network": form.get("network", ""),
        "agent_key": form.get("agent", ""),
        "user_message": form.get("message") or f"Try {name}",
        "model": "scripted:task",
        "script": [decision],
        "single_instruction": True,
    }
    accepted = await asked.api.post("/v1/runs", task)
    return Done(f"/runs/{accepted['run_id']}", "The call was asked for.")


ACTIONS = (ActionRoute("/tools/{tool:path}/try", try_call, "runs:write", "/tools"),)
