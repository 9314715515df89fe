"""The runs of the crash-point sweep: what they do, and the platform on which they do it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from tests.chaos.crash_points.tools import OUTSIDE_VARIABLE
from tests.support.places import IMPORTS_TESTS

from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_fabric.crash_points import VARIABLE

EffectClass = Literal["pure", "idempotent", "reconcilable", "irreversible"]
Kind = Literal["plain", "cancelled", "enqueued", "short", "alone"]

CLASSES: Final[tuple[EffectClass, ...]] = ("pure", "idempotent", "reconcilable", "irreversible")
NETWORK_NAME: Final = "crash"
OWN_TOOL: Final = "workspace_write"
"""A tool of the platform: no worker runs it, the run itself applies it."""

MAX_ACTIVE: Final = 6
"""Runs under way at once on the sweep's platform: few, so that some have to wait for admission."""

_POLICY: Final = """kind: Policy
rules:
  - {name: marks, who: {agent: first}, tool: 'crash.*', effect: allow}
  - {name: own, who: {agent: first}, tool: workspace_write, effect: allow}
  - {name: ask, who: {agent: second}, tool: 'crash.*', effect: require_approval}
"""

NETWORK: Final[dict[str, Any]] = {
    "name": NETWORK_NAME,
    "agents": [
        {
            "key": "first",
            "is_default": True,
            "allow_respond": True,
            "equipped_tools": [*(f"crash.{name}" for name in CLASSES), OWN_TOOL],
            "allowed_routes": ["second"],
            "prompt_template": "Do what can be done at once.",
        },
        {
            "key": "second",
            "allow_respond": True,
            "equipped_tools": [f"crash.{name}" for name in CLASSES],
            "prompt_template": "Do what somebody has to allow.",
        },
    ],
    "max_steps": 20,
    "timeout_ms": 600_000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepTask:
    """One run to submit.

    *kind* `cancelled` is stopped by a person at its gate, `enqueued` comes through the stream of tasks, `short` only
    writes a note and answers, and for `alone` nothing is done.
    """

    kind: Kind
    effect_class: EffectClass
    key: str

    @property
    def sort(self) -> tuple[Kind, EffectClass]:
        """What has the same log as this one: how a task came in leaves no trace there."""
        same: dict[Kind, Kind] = {"enqueued": "plain", "alone": "cancelled"}
        return same.get(self.kind, self.kind), self.effect_class

    def body(self) -> dict[str, Any]:
        """Return the task as a client sends it."""
        return {
            "network": NETWORK_NAME,
            "user_message": "Do it.",
            "labels": {"kind": self.sort[0]},
            "idempotency_key": f"{self.kind} {self.key}",
            "debug": True,
            "script": _script(self.kind, f"crash.{self.effect_class}"),
        }


def _script(kind: Kind, tool: str) -> list[dict[str, Any]]:
    """Two calls at once, a transfer, a call behind a gate, an answer; a short run writes a note and answers."""
    answer = {"action": "RESPOND", "action_reasoning": "done", "action_details": {"payload": "done"}}
    if kind == "short":
        note = {"tool_name": OWN_TOOL, "tool_params": {"path": "note.txt", "content": "short"}}
        return [{"action": "USE_TOOL", "action_reasoning": "keep it", "action_details": note}, answer]
    two = [{"tool_name": tool, "tool_params": {"n": n}} for n in (1, 2)]
    one = {"tool_name": tool, "tool_params": {"n": 3}}
    route = {"target_agent_name": "second", "context": {"why": "somebody has to allow it"}}
    return [
        {"action": "USE_TOOL", "action_reasoning": "both", "action_details": {"calls": two}},
        {"action": "ROUTE_TO_AGENT", "action_reasoning": "over to you", "action_details": route},
        {"action": "USE_TOOL", "action_reasoning": "this too", "action_details": one},
        answer,
    ]


def sweep_platform(
    folder: Path,
    *,
    armed: Path,
    single: Sequence[str] = (),
    commands: Mapping[str, Sequence[str]] | None = None,
) -> Platform:
    """Return a platform below *folder* whose processes pass the points armed in *armed*; start it yourself.

    Every role that may be killed has two processes, so that one goes on; those of *single* have one.
    """
    count = {role: 1 if role in single else 2 for role in ("orchestrator", "decider", "tas", "worker")}
    folder.mkdir(parents=True, exist_ok=True)
    armed.mkdir(parents=True, exist_ok=True)
    policy = folder / "policy.yaml"
    policy.write_text(_POLICY)
    own = IMPORTS_TESTS if commands else {}
    return Platform(
        folder / "data",
        replicas={role: count[role] for role in ("orchestrator", "decider", "tas")} | {"gateway": 0},
        environment={VARIABLE: str(armed)},
        role_environment={
            "tas": {**own, "TOWPATH_POLICY_FILE": str(policy)},
            "orchestrator": {**own, "TOWPATH_MAX_ACTIVE_RUNS": str(MAX_ACTIVE), "TOWPATH_MAX_ACTIVE_SHARE": "1"},
        },
        workers=[
            WorkerLaunch(
                modules=("tests.chaos.crash_points.tools",),
                count=count["worker"],
                concurrency=8,
                environment={**IMPORTS_TESTS, OUTSIDE_VARIABLE: str(folder / "outside")},
            )
        ],
        durable=False,
        commands=commands,
        starts="fork",
        longest_pause_s=0.2,
    )
