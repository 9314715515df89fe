"""The tools that a caller is shown: those of the platform that its key may use, and one for each published network.

What a network says of itself is other people's text: it stands in descriptions and nowhere else. Clients go by hints
when they ask a person before a call, so a network counts as destructive unless none of its tools changes anything.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mcp_types import Tool, ToolAnnotations

from towpath_console.api import Api, ApiRefusalError
from towpath_contracts.run_limits import MAX_STEPS_CAP, MAX_TIMEOUT_MS, MAX_VERSION

NETWORKS_PER_PAGE = 100
KEPT = 1_000
"""Descriptions of networks that are kept, each by the digest of its version: they never change."""

MAX_NAME_CHARS = 64
"""Of a tool: some models take no longer names, and no other characters than letters, digits, _ and -."""

_DIGEST_CHARS = 8
_OTHER = re.compile(r"[^A-Za-z0-9_-]")
_SHORTENED = re.compile(rf"_[0-9a-f]{{{_DIGEST_CHARS}}}\Z")
"""How a name ends that was made of another: a network that is called so could stand in for that one."""

_TEXT: dict[str, Any] = {"type": "string"}
_UUID: dict[str, Any] = {"type": "string", "format": "uuid"}


def _number(text: str, most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "maximum": most, "description": text}


def _told(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": text, **more}


_WAIT = {
    "type": "number",
    "minimum": 0,
    "description": "Seconds to wait for the end. The run goes on after that: ask follow_run.",
}
_KEY = _told("The same key and arguments give the same run for 24 hours: repeat a call under the key of the first.")

_TASK: dict[str, Any] = {
    "user_message": _told("What is asked, in your own words."),
    "quoted_inputs": {
        "type": "object",
        "additionalProperties": _TEXT,
        "description": "Texts of others by name, such as a customer's mail: read, but not taken as your word.",
    },
    "labels": {"type": "object", "additionalProperties": _TEXT, "description": "By which runs are found again."},
    "idempotency_key": _KEY,
    "wait_s": _WAIT,
}
_SYSTEM = {"type": "object", "description": "Values that tools get and models never see, by name."}
_GOAL = {
    "type": "object",
    "properties": {
        "goal": _told("What is to be reached."),
        "acceptance_criteria": {"type": "array", "items": {}, "description": "By which it counts as reached."},
        "constraints": {"type": "object"},
    },
    "required": ["goal"],
}
_OBJECTIVE = {
    "type": "object",
    "properties": {
        "objective": _told("What is to be worked out, in ASCII."),
        "deliverable_schema": {"type": "object", "description": "JSON Schema of what is handed over."},
    },
    "required": ["objective"],
}
_ANY_RUN = {
    "network": _told("The name of a published network."),
    **_TASK,
    "version": _number("Another version than the current one.", MAX_VERSION),
    "agent_key": _told("The agent that begins, in place of the network's own."),
    "system_params": _SYSTEM,
    "max_steps": _number("Steps that the run may take.", MAX_STEPS_CAP),
    "timeout_ms": _number("Milliseconds that it may be active.", MAX_TIMEOUT_MS),
    "continues": {**_UUID, "description": "The run of this conversation before this one."},
    "goal": _GOAL,
    "background": _OBJECTIVE,
}

_RUN_RESULT: dict[str, Any] = {
    "type": "object",
    "properties": {"run_id": _UUID, "status": _TEXT},
    "required": ["run_id", "status"],
}

RUNS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True)
_READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
_DECIDES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=True)


def _schema(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


PLATFORM_TOOLS: tuple[tuple[str, Tool], ...] = (
    (
        "runs:write",
        Tool(
            name="run_network",
            title="Run a network",
            description="Submit a task to a network of agents and wait for its end. Where a person has to decide "
            "first, the answer says what waits and where that is decided.",
            input_schema=_schema(_ANY_RUN, "network"),
            output_schema=_RUN_RESULT,
            annotations=RUNS,
        ),
    ),
    (
        "runs:read",
        Tool(
            name="get_run",
            title="Look at a run",
            description="How a run stands, what it answered, and what it waits for.",
            input_schema=_schema({"run_id": _UUID}, "run_id"),
            output_schema=_RUN_RESULT,
            annotations=_READS,
        ),
    ),
    (
        "runs:read",
        Tool(
            name="follow_run",
            title="Follow a run",
            description="Wait for a run's end, or until a person has to decide; what it does comes as progress.",
            input_schema=_schema({"run_id": _UUID, "wait_s": _WAIT}, "run_id"),
            output_schema=_RUN_RESULT,
            annotations=_READS,
        ),
    ),
    (
        "gates:read",
        Tool(
            name="list_approvals",
            title="List what waits for a person",
            description="Calls and runs that wait for a person's word, the oldest first, with the arguments of each "
            "and the digest that stands for them.",
            input_schema=_schema(
                {
                    "status": _told("pending, or all; pending unless said otherwise."),
                    "run_id": _UUID,
                    "root_run_id": {**_UUID, "description": "Of this run and of all below it."},
                    "network": _TEXT,
                    "tool": _TEXT,
                    "after": {**_UUID, "description": "next_after of the page before."},
                    "limit": _number("At most so many; 20 unless said otherwise.", 500),
                }
            ),
            annotations=_READS,
        ),
    ),
    (
        "gates:resolve",
        Tool(
            name="decide_approval",
            title="Decide what waits",
            description="Say a person's word at a gate. Ask the person first: it is recorded as theirs. Who submitted "
            "the run may not approve its calls.",
            input_schema=_schema(
                {
                    "gate_id": _UUID,
                    "verdict": _told(
                        "edit puts args in the place of the arguments that wait.",
                        enum=["approved", "denied", "edit", "happened", "did_not_happen", "retry", "stop"],
                    ),
                    "reason": _told("Needed to deny: the model reads it.", maxLength=2_000),
                    "digest": _told("detail.digest of list_approvals: the word counts for this very call alone."),
                    "args": {"type": "object", "description": "With edit: all arguments, as the tool takes them."},
                },
                "gate_id",
                "verdict",
            ),
            annotations=_DECIDES,
        ),
    ),
    (
        "audit:read",
        Tool(
            name="search_audit",
            title="Search the audit",
            description="What was decided and done, and by whom, the newest first.",
            input_schema=_schema(
                {
                    **dict.fromkeys(("agent_key", "tool", "verdict", "phase", "actor", "args_digest"), _TEXT),
                    "run_id": _UUID,
                    "execution_id": _UUID,
                    "since": _told("With its zone, such as 2026-11-26T08:00:00Z."),
                    "until": _told("With its zone."),
                    "before": _number("next_before of the page before.", 2**53),
                    "limit": _number("At most so many; 20 unless said otherwise.", 1_000),
                }
            ),
            annotations=_READS,
        ),
    ),
)
"""Each with the scope that the API asks for what it does."""

_BY_NAME = {tool.name: tool for _, tool in PLATFORM_TOOLS}


def platform_arguments(name: str) -> frozenset[str] | None:
    """Return what a tool of the platform takes; None where it has no such tool."""
    found = _BY_NAME.get(name)
    return None if found is None else frozenset(found.input_schema["properties"])


class ToolDirectory:
    """Finds the tools of a caller; what is known of a version of a network is kept."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], Tool] = {}

    async def page(self, api: Api, cursor: str | None) -> tuple[list[Tool], str | None]:
        """Return the tools after *cursor*, and where the next page begins."""
        scopes = frozenset((await api.get("/v1/me"))["scopes"])
        found = [tool for scope, tool in PLATFORM_TOOLS if scope in scopes] if cursor is None else []
        if not {"runs:write", "networks:read"} <= scopes:
            return found, None
        named = sorted(await _networks(api), key=lambda one: str(one["name"]))
        rest = [one for one in named if cursor is None or one["name"] > cursor]
        shown = rest[:NETWORKS_PER_PAGE]
        found += [tool for one in shown if (tool := await self._tool(api, one)) is not None]
        return found, str(shown[-1]["name"]) if len(rest) > len(shown) else None

    async def find_network(self, api: Api, tool: str) -> tuple[str, frozenset[str]] | None:
        """Return which network *tool* runs, and what it takes; None where there is none."""
        for one in await _networks(api):
            if tool_name(one["name"]) == tool and (found := await self._tool(api, one)) is not None:
                return one["name"], frozenset(found.input_schema["properties"])
        return None

    async def names(self, api: Api) -> list[str]:
        """Return what the tools are called, those of networks first, as many as a page has."""
        networks = sorted(tool_name(str(one["name"])) for one in await _networks(api))
        return [*networks[:NETWORKS_PER_PAGE], *_BY_NAME]

    async def _tool(self, api: Api, listed: Mapping[str, Any]) -> Tool | None:
        """Return the tool of a network; None where the network was taken away meanwhile."""
        key = listed["name"], listed["digest"]
        if key not in self._kept:
            try:
                version = await api.get(f"/v1/networks/{listed['name']}", version=listed["version"])
            except ApiRefusalError as error:
                if error.problem.get("code") not in {"network_not_found", "version_not_found", "not_found"}:
                    raise
                return None
            if len(self._kept) >= KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[key] = network_tool(listed["name"], version["snapshot"] or {})
        return self._kept[key]


async def _networks(api: Api) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = (await api.get("/v1/networks"))["networks"]
    return found


def tool_name(network: str) -> str:
    """Return what the tool of *network* is called: its name, where every client takes that and no other tool has it.

    Else its characters that clients take, and a part of a digest of its name: publishing another network renames none.
    """
    plain = _OTHER.sub("_", network)
    if plain == network and len(plain) <= MAX_NAME_CHARS and plain not in _BY_NAME and not _SHORTENED.search(plain):
        return plain
    end = hashlib.sha256(network.encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{plain[: MAX_NAME_CHARS - len(end) - 1]}_{end}"


def network_tool(network: str, snapshot: Mapping[str, Any]) -> Tool:
    """Return the tool that runs *network*; its agents' tools say what it takes and what it may do."""
    tools = [tool for tool in (snapshot.get("tools") or {}).values() if not tool.get("internal")]
    taken = dict(_TASK)
    hidden = sorted({name for tool in tools for name in tool.get("system_params") or ()})
    if hidden:
        taken["system_params"] = {**_SYSTEM, "properties": {name: {} for name in hidden}}
    needs_message = True
    for name, schema in (("goal", _GOAL), ("background", _OBJECTIVE)):
        if snapshot.get(name) is not None:
            taken[name] = schema
            needs_message = False
    description = str(snapshot.get("description") or "") or f"Run the network {network}."
    changes = any(tool.get("effect_class") != "pure" for tool in tools)
    return Tool(
        name=tool_name(network),
        title=network,
        description=description,
        input_schema=_schema(taken, *(["user_message"] if needs_message else [])),
        output_schema=_RUN_RESULT,
        annotations=RUNS.model_copy(update={"destructive_hint": changes}),
    )
