"""What runs while the faults strike: networks with scripted decisions and recording tools.

No model is asked and no real tool is called, whatever a network names: its models are replaced by the script, its tools
by tools that append a mark to the outside file.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from towpath_contracts.base import JsonObject
from towpath_contracts.networks.spec import NetworkSpec
from towpath_contracts.problems.input_faults import option_fault
from towpath_contracts.problems.registry import ProblemDetail
from towpath_contracts.tools.calls import ToolSpec
from towpath_readings.yaml_lines import locate_yaml_fault

MODEL = "scripted:task"
TIMEOUT_MS = 3_000
"""Of every recording tool, which needs milliseconds: the lease of a call whose worker died ends soon."""

RUN_TIMEOUT_MS = 600_000
IMPORT_TIMEOUT_S = 60
TOOLSET = "chaos"
BUILTIN = "crossing"
"""The built-in network: every effect class, parallel calls, a transfer and an approval, in seven steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A network, the decisions that are played on it, the tools it is equipped with, and the rules for them.

    `task` is what its tasks contain beside message and script: a goal, or an objective.
    """

    spec: JsonObject
    script: tuple[Any, ...]
    message: str
    tools: tuple[ToolSpec, ...]
    rules: tuple[JsonObject, ...]
    task: JsonObject = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The network's name."""
        return str(self.spec["name"])


class WorkloadError(Exception):
    """Files that can't be used; `details` has every problem."""

    def __init__(self, details: Sequence[ProblemDetail]) -> None:
        super().__init__("; ".join(detail.detail for detail in details))
        self.details = tuple(details)


def default_workloads() -> tuple[Workload, ...]:
    """Return the built-in network and the support sample."""
    return builtin_workload(), sample_workload()


def builtin_workload() -> Workload:
    """Return the network whose runs pass every boundary that a run can pass."""
    tools = [
        ToolSpec(name=f"crossing.{name}", toolset=TOOLSET, effect_class=effect_class, has_probe=name == "book")
        for name, effect_class in _CROSSING.items()
    ]
    keeper, clerk = ("look", "note", "pay"), ("look", "book", "sign")
    agents = [
        {"key": "keeper", "is_default": True, "allowed_routes": ["clerk"], "equipped_tools": _dotted(keeper)},
        {"key": "clerk", "allow_respond": True, "equipped_tools": _dotted(clerk)},
    ]
    script = (
        _use("keeper", "look"),
        _use("keeper", "note", "pay", "look"),
        {"agent": "keeper", **_decision("ROUTE_TO_AGENT", {"target_agent_name": "clerk", "context": "sign it"})},
        _use("clerk", "book"),
        _use("clerk", "sign"),
        _use("clerk", "look"),
        {"agent": "clerk", **_decision("RESPOND", {"payload": {"message": "crossed"}})},
    )
    return Workload(
        spec={"name": BUILTIN, "max_steps": 20, "agents": [{**agent, "prompt_template": "Cross."} for agent in agents]},
        script=script,
        message="Cross the water.",
        tools=tuple(_with_short_timeout(tool) for tool in tools),
        rules=(
            {"name": "crossing", "who": {"network": BUILTIN}, "tool": "crossing.*", "effect": "allow"},
            {"name": "signing", "who": {"network": BUILTIN}, "tool": "crossing.sign", "effect": "require_approval"},
        ),
    )


_CROSSING = {
    "look": "pure",
    "note": "idempotent",
    "book": "reconcilable",
    "pay": "irreversible",
    "sign": "irreversible",
}


def _dotted(names: Sequence[str]) -> list[str]:
    return [f"crossing.{name}" for name in names]


def _decision(action: str, details: JsonObject) -> JsonObject:
    return {"action": action, "action_reasoning": "as written", "action_details": details, "delay_ms": 20}


def _use(agent: str, *names: str) -> JsonObject:
    calls = [{"tool_name": name, "tool_params": {"place": n}} for n, name in enumerate(_dotted(names))]
    return {"agent": agent, **_decision("USE_TOOL", {"calls": calls})}


def sample_workload() -> Workload:
    """Return the support sample: installed with the platform, or in this checkout."""
    package = Path(__file__).parents[1]
    places = (package / "samples" / "support", package.parents[1] / "examples" / "support")
    folder = next(place for place in places if (place / "network.yaml").is_file())
    return read_workload(
        folder / "network.yaml",
        folder / "script.json",
        tools=folder / "tools.py",
        policy=folder / "policy.yaml",
        message="Please refund order 8812, it arrived broken.",
    )


def read_workload(
    network: Path,
    decisions: Path,
    *,
    tools: Path | None = None,
    policy: Path | None = None,
    message: str = "As the decisions say.",
) -> Workload:
    """Read a workload from files; raises WorkloadError with all that is wrong.

    A tool that *tools* does not declare takes any arguments and is irreversible. Without *policy* the network may call
    whatever its agents are equipped with.
    """
    faults: list[ProblemDetail] = []
    spec = _network(network, faults)
    script = _script(decisions, faults)
    declared = _specs(tools, faults) if tools is not None else {}
    rules = _rules(policy, faults) if policy is not None else [_allow_all(spec)]
    if faults:
        raise WorkloadError(faults)
    names = dict.fromkeys(name for agent in spec["agents"] for name in agent.get("equipped_tools", ()))
    return Workload(
        spec=_scripted(spec),
        script=tuple(script),
        message=message,
        tools=tuple(_with_short_timeout(declared.get(name) or ToolSpec(name=name, toolset=TOOLSET)) for name in names),
        rules=tuple(rules),
    )


def _with_short_timeout(tool: ToolSpec) -> ToolSpec:
    return tool.model_copy(update={"timeout_ms": TIMEOUT_MS})


def _scripted(spec: JsonObject) -> JsonObject:
    agents = [{name: value for name, value in agent.items() if name != "model"} for agent in spec["agents"]]
    return {**spec, "model": MODEL, "timeout_ms": RUN_TIMEOUT_MS, "agents": agents}


def _allow_all(spec: JsonObject) -> JsonObject:
    return {"name": "chaos", "who": {"network": spec.get("name", "")}, "tool": "*", "effect": "allow"}


def _read(path: Path, option: str, faults: list[ProblemDetail]) -> Any:
    """YAML, which JSON is a part of; None where it can't be read."""
    text = ""
    try:
        text = path.read_text("utf-8")
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        faults.append(_invalid(option, locate_yaml_fault(path, error, text)))
    except (OSError, UnicodeDecodeError) as error:
        faults.append(_invalid(option, f"{path}: {' '.join(str(error).split())}"))
    return None


def _invalid(option: str, detail: str) -> ProblemDetail:
    return option_fault(option, detail, "invalid")


def _network(path: Path, faults: list[ProblemDetail]) -> JsonObject:
    content = _read(path, "--network", faults)
    if content is None:
        return {}
    try:
        NetworkSpec.model_validate(content)
    except ValidationError as error:
        for entry in error.errors(include_url=False):
            place = "/".join(str(part) for part in entry["loc"])
            faults.append(_invalid("--network", f"{path}: {place or 'the file'}: {entry['msg']}"))
    return content if isinstance(content, dict) else {}


def _script(path: Path, faults: list[ProblemDetail]) -> list[Any]:
    content = _read(path, "--decisions", faults)
    if isinstance(content, dict):
        content = content.get("script")
    if content is not None and not (isinstance(content, list) and content):
        faults.append(_invalid("--decisions", f"{path} holds no array of decisions"))
    return content if isinstance(content, list) else []


def _rules(path: Path, faults: list[ProblemDetail]) -> list[JsonObject]:
    content = _read(path, "--policy", faults)
    rules = content.get("rules") if isinstance(content, dict) else None
    if content is not None and not isinstance(rules, list):
        faults.append(_invalid("--policy", f"{path} holds no list of rules"))
    return rules if isinstance(rules, list) else []


def _specs(module: Path, faults: list[ProblemDetail]) -> dict[str, ToolSpec]:
    command = [sys.executable, "-P", "-m", "towpath_embedded.chaos.tool_specs", str(module.absolute())]
    try:
        done = subprocess.run(command, capture_output=True, timeout=IMPORT_TIMEOUT_S, check=True)
        found = TypeAdapter(list[ToolSpec]).validate_json(done.stdout)
    except subprocess.TimeoutExpired:
        faults.append(_invalid("--tools", f"{module} could not be imported within {IMPORT_TIMEOUT_S} s"))
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines() or ["it ended without a word"]
        faults.append(_invalid("--tools", f"{module}: {lines[-1]}"))
    except ValidationError:
        faults.append(_invalid("--tools", f"{module} writes to its standard output when it is imported"))
    else:
        return {tool.name: tool for tool in found}
    return {}


def policy_text(workloads: Sequence[Workload]) -> str:
    """Return the permission matrix of all *workloads*, as the YAML that a policy file holds."""
    return json.dumps({"kind": "Policy", "rules": [rule for workload in workloads for rule in workload.rules]})


def tools_text(workloads: Sequence[Workload]) -> str:
    """Return the tools of all *workloads* for `recording`, each name once."""
    tools = {tool.name: tool for workload in workloads for tool in workload.tools}
    return TypeAdapter(list[ToolSpec]).dump_json(list(tools.values())).decode()
