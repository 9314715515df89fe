"""A platform on which runs pursue goals: the sample, tools whose results are written beforehand, and a client."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
from tests.support.places import ROOT

from towpath import Client
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_embedded.network_files.network_folder import NetworkFolderPublisher
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder
from towpath_readings.goals import GoalView

EXAMPLE = ROOT / "examples" / "goal"
PASSES = {"when": "tests.failed == 0"}

NETWORK = """\
kind: Network
name: lab
goal: {validate_steps: false}
agents:
  - key: coder
    is_default: true
    allow_respond: true
    allowed_routes: [senior]
    equipped_tools: [lab.edit, lab.test, lab.build, lab.publish]
  - key: senior
    allow_respond: true
    allowed_routes: [coder]
    equipped_tools: [lab.publish]
"""
POLICY = """
  - {name: lab-work, who: {network: lab}, tool: 'lab.*', effect: allow, when: "agent.key == 'coder' && true"}
  - {name: lab-publish, who: {network: lab, agent: coder}, tool: lab.publish, effect: deny}
  - {name: lab-senior, who: {network: lab, agent: senior}, tool: lab.publish, effect: allow, when: args.n < 10}
  - {name: lab-ask, who: {network: lab, agent: senior}, tool: lab.publish, effect: require_approval, when: args.n == 7}
"""

STATE_FIELDS = frozenset(
    {"task_id", "agent_id", "project_id", "goal", "acceptance_criteria", "constraints", "current_step", "max_steps"}
    | {"started_at", "steps_history", "artifacts", "failure_count", "last_errors", "consecutive_failures"}
    | {"progress_score", "progress_metrics", "token_usage", "llm_calls", "tool_executions", "total_cost_usd"}
    | {"decision_reasoning", "escalation_triggered", "escalation_reason", "timeout_reached", "resource_limit_hit"}
    | {"last_confidence_check_step", "last_confidence_score"}
)
STEP_FIELDS = frozenset(
    {"step_number", "timestamp", "reasoning", "planned_action", "execution_result", "attempt_number", "validation"}
    | {"acceptance_progress", "success", "error_if_failed", "tokens_used", "cost_usd", "duration_ms"}
)
"""The fields of the source's TaskState and Step."""


def check_state_fields(state: GoalView) -> None:
    """Hold a goal's state against the fields of the source."""
    assert type(state).model_fields.keys() >= STATE_FIELDS
    assert all(type(step).model_fields.keys() >= STEP_FIELDS for step in state.steps_history) and state.steps_history


def use(tool: str, agent: str = "", /, **params: Any) -> dict[str, Any]:
    decision = {
        "action": "USE_TOOL",
        "action_reasoning": f"try {tool}",
        "action_details": {"tool_name": tool, "tool_params": params},
    }
    return {**decision, "agent": agent} if agent else decision


def respond(payload: Any) -> dict[str, Any]:
    return {"action": "RESPOND", "action_reasoning": "I am done", "action_details": {"payload": payload}}


TESTED = use("lab.test", passed=4, failed=0)
ASKS = [use("lab.publish", "coder", n=1), use("lab.publish", "coder", n=2)]
"""What the coder may not do, twice: then the senior is asked, in a run of its own."""


class Place:
    """The platform, and what is asked of it."""

    def __init__(self, client: httpx2.AsyncClient, sdk: Client) -> None:
        self.client = client
        self.sdk = sdk

    async def pursue(self, script: list[Any], *criteria: Any, network: str = "lab", **more: Any) -> str:
        """Submit a goal; `settings` are the goal's, everything else the task's."""
        settings = more.pop("settings", {})
        goal = {"goal": "Make it work.", "acceptance_criteria": [*criteria], "settings": settings}
        answer = await self.client.post("/v1/runs", json={"network": network, "goal": goal, "script": script, **more})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["run_id"])

    async def until(self, run_id: str, *statuses: str) -> dict[str, Any]:
        """Wait until the run has one of *statuses*, or ended."""
        wanted = {*statuses, *FINAL_STATUSES}
        async with asyncio.timeout(90):
            while True:
                view = dict((await self.client.get(f"/v1/runs/{run_id}", headers={"Prefer": "wait=1"})).json())
                if view["status"] in wanted:
                    return view

    async def events(self, run_id: str, kind: str) -> list[dict[str, Any]]:
        page = (await self.client.get(f"/v1/runs/{run_id}/events", params={"limit": 1_000})).json()
        return [{**one["event"], "at": one["at"]} for one in page["entries"] if one["event"]["type"] == kind]

    async def gate(self, run_id: str) -> dict[str, Any]:
        """Wait for the one gate that is open."""
        await self.until(run_id, "waiting")
        page = (await self.client.get("/v1/gates", params={"run_id": run_id})).json()
        (gate,) = page["gates"]
        return dict(gate)

    async def child_of(self, run_id: str, ready: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until the run's one child is as far as *ready* requires; the tree shows it."""
        async with asyncio.timeout(90):
            while True:
                tree = (await self.client.get(f"/v1/runs/{run_id}/tree")).json()
                if len(tree["children"]) == 1 and ready(tree["children"][0]):
                    return dict(tree["children"][0])
                await asyncio.sleep(0.05)

    async def say(self, gate: dict[str, Any], verdict: str, reason: str = "") -> httpx2.Response:
        return await self.client.post(
            f"/v1/gates/{gate['gate_id']}/resolve", json={"verdict": verdict, "reason": reason}
        )


@contextlib.asynccontextmanager
async def goal_place() -> AsyncIterator[Place]:
    """Start the platform with both networks published."""
    with temporary_folder() as folder:
        shutil.copytree(EXAMPLE, folder / "networks")
        (folder / "networks" / "lab.yaml").write_text(NETWORK)
        (folder / "policy.yaml").write_text((EXAMPLE / "policy.yaml").read_text() + POLICY)
        modules = (str(EXAMPLE / "tools.py"), str(ROOT / "tests" / "support" / "worker" / "goal_tools.py"))
        workers = [WorkerLaunch(modules=modules, environment={"GOAL_FOLDER": str(folder / "project")})]
        policy = {"tas": {"TOWPATH_POLICY_FILE": str(folder / "policy.yaml"), "TOWPATH_SINGLE_PERSON": "true"}}
        async with Platform(
            folder / "d", role_environment=policy, workers=workers, durable=False, starts="fork"
        ) as platform:
            told: list[str] = []
            await NetworkFolderPublisher(folder / "networks", platform.client_url, told.append).publish_changed()
            assert len([one for one in told if one.endswith("version 1")]) == 2, told
            address = platform.client_url
            async with httpx2.AsyncClient(base_url=address, verify=False, timeout=60) as client, Client(address) as sdk:
                yield Place(client, sdk)
