"""One project floods a platform, and another one submits a run at a time: what does the second notice of the first?

How long a run takes says more about the machine than about the turns that projects take. So what is counted beside
the seconds is how many of the flood's runs end, and how many of its calls, between a run's submit and its end: without
turns that is nearly all of them, for the first run already.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import nats
from nats.aio.client import Client
from tests.support.places import ROOT
from tests.support.platform.marked_runs import NETWORK, TOOLS, ask, script

from towpath_contracts import rpc
from towpath_contracts.budgets import ProjectQuota, SetQuota
from towpath_contracts.networks.spec import PublishNetwork
from towpath_contracts.tools.access import ApplyPolicy
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch

NOISY, QUIET, LOUD = "noisy", "quiet", "loud"
"""Projects, and their only callers: a caller of NATS is of one project."""

ACTIVE_RUNS = 40
"""Room for runs: so little that a flood of hundreds has to wait for it."""

ALLOWED = {NOISY: "mark.*", QUIET: "mark.pure", LOUD: "mark.*"}
"""What the policy of each project allows."""

PATIENCE_S = 300

_MEANWHILE = """
SELECT extract(epoch FROM q.ended_at - q.created_at)::float AS seconds, q.status,
  (SELECT count(*) FROM runs.run n
   WHERE n.project = $2 AND n.ended_at BETWEEN q.created_at AND q.ended_at) AS runs,
  (SELECT count(*) FROM runs.run n JOIN runs.run_event e ON e.run_id = n.run_id
   WHERE n.project = $2 AND e.type = 'tool_call_finished' AND e.at BETWEEN q.created_at AND q.ended_at) AS calls
FROM runs.run q WHERE q.run_id = ANY ($1::uuid[]) ORDER BY q.created_at
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How much the noisy project submits at once, and how many runs the quiet one makes, one after the other."""

    runs: int
    calls: int
    quiet_runs: int

    @property
    def calls_in_all(self) -> int:
        return self.runs * self.calls * _STEPS


_STEPS = 2
"""Steps of every run that call tools; then it answers."""


def platform_of(folder: Path) -> Platform:
    """A platform of one process of each kind, with a worker for each project."""
    policy = folder / "policy.yaml"
    policy.write_text("kind: Policy\nrules: []\n", "utf-8")
    tools = str(ROOT / "tests" / "support" / "worker" / "effect_tools.py")
    marks = {"TOWPATH_TEST_EFFECTS": str(folder / "effects.txt")}
    return Platform(
        folder / "d",
        starts="fork",
        durable=False,
        role_environment={
            "orchestrator": {"TOWPATH_MAX_ACTIVE_RUNS": str(ACTIVE_RUNS)},
            "tas": {"TOWPATH_POLICY_FILE": str(policy)},
        },
        workers=[
            WorkerLaunch(modules=(tools,), concurrency=16, environment={**marks, "TOWPATH_PROJECT": project})
            for project in ALLOWED
        ],
    )


class TwoProjects:
    """The noisy project, the quiet one, and another loud one for who wants it, on a running platform.

    Each has its policy, its network and its caller.
    """

    def __init__(self, platform: Platform, control: Client, connection: Any) -> None:
        self.platform = platform
        self.connection = connection
        self._control = control

    @classmethod
    async def set_up(cls, platform: Platform) -> "TwoProjects":
        control = await nats.connect(platform.nats_url_of("gateway"), inbox_prefix=b"_INBOX_gateway")
        connection = await asyncpg.connect(platform.dsn())
        await connection.executemany(
            "INSERT INTO gateway.principal (caller, project) VALUES ($1, $1)", [(project,) for project in ALLOWED]
        )
        found = cls(platform, control, connection)
        for project, tools in ALLOWED.items():
            policy = f"kind: Policy\nrules:\n  - {{name: marks, tool: '{tools}', effect: allow}}\n"
            await found.tell(rpc.APPLY_POLICY, ApplyPolicy(project=project, actor="test", text=policy))
            await found.tell(rpc.PUBLISH_NETWORK, PublishNetwork(project=project, actor="test", spec=NETWORK))
        return found

    async def close(self) -> None:
        await self._control.close()
        await self.connection.close()

    async def tell(self, method: rpc.RpcMethod, request: Any) -> dict[str, Any]:
        """Ask a service as the gateway does, until it takes it: workers register their tools meanwhile."""
        for _ in range(600):
            reply = await self._control.request(method.subject, request.model_dump_json().encode(), timeout=30)
            if not (reply.headers and rpc.PROBLEM_HEADER in reply.headers):
                return dict(json.loads(reply.data))
            await asyncio.sleep(0.1)
        raise AssertionError(reply.data.decode())

    async def limit(self, project: str, **limits: int) -> None:
        quota = ProjectQuota.model_validate(limits)
        await self.tell(rpc.SET_QUOTA, SetQuota(project=project, quota=quota, actor="test", roles=("operator",)))

    async def submit(self, project: str, number: int, *, calls: int = 1, tools: Sequence[str] = TOOLS[:1]) -> str:
        task = {
            "network": NETWORK["name"],
            "user_message": f"run {number}",
            "script": script(_STEPS, tuple(tools), number, calls),
            "max_steps": 50,
            "idempotency_key": f"run-{number}",
        }
        accepted = await ask(self._control, f"task.submit.{project}", task, PATIENCE_S)
        return str(accepted["run_id"])

    async def refused(self, project: str, number: int) -> dict[str, Any]:
        """Submit a task that is refused, and return the problem."""
        task = {"network": NETWORK["name"], "user_message": f"run {number}", "script": script(1, TOOLS[:1], number)}
        reply = await self._control.request(f"task.submit.{project}", json.dumps(task).encode(), timeout=30)
        return dict(json.loads(reply.data))

    async def ended(self, project: str) -> int:
        text = "SELECT count(*) FROM runs.run WHERE project = $1 AND ended_at IS NOT NULL"
        return int(await self.connection.fetchval(text, project))

    async def until_ended(self, project: str, runs: int) -> None:
        """Wait until so many runs of *project* have ended."""
        until = asyncio.get_running_loop().time() + PATIENCE_S
        while await self.ended(project) < runs:
            if asyncio.get_running_loop().time() > until:
                raise TimeoutError(f"{await self.ended(project)} of {runs} runs of {project} have ended")
            await asyncio.sleep(0.05)

    async def until_event(self, run_id: str, kind: str) -> dict[str, Any]:
        """Wait for the first event of that type in the log of a run, and return it."""
        text = "SELECT event FROM runs.run_event WHERE run_id = $1::uuid AND type = $2 ORDER BY seq LIMIT 1"
        until = asyncio.get_running_loop().time() + PATIENCE_S
        while (found := await self.connection.fetchval(text, run_id, kind)) is None:
            if asyncio.get_running_loop().time() > until:
                raise TimeoutError(f"run {run_id} has no {kind}")
            await asyncio.sleep(0.05)
        return dict(json.loads(found))

    async def until_postponed(self, runs: int) -> None:
        """Wait until so many runs that have not ended have had a call postponed."""
        text = (
            "SELECT count(DISTINCT e.run_id) FROM runs.run_event e JOIN runs.run r ON r.run_id = e.run_id"
            " WHERE e.type = 'tool_call_postponed' AND r.ended_at IS NULL"
        )
        until = asyncio.get_running_loop().time() + PATIENCE_S
        while (found := await self.connection.fetchval(text)) < runs:
            if asyncio.get_running_loop().time() > until:
                raise TimeoutError(f"calls of {found} of {runs} runs were postponed")
            await asyncio.sleep(0.05)

    async def flood(self, load: Load) -> None:
        await asyncio.gather(*(self.submit(NOISY, n, calls=load.calls, tools=TOOLS) for n in range(load.runs)))

    async def meanwhile(self, run_ids: Sequence[str]) -> list[dict[str, Any]]:
        """Return for each run its seconds, and what of the flood ended between its submit and its end."""
        return [dict(row) for row in await self.connection.fetch(_MEANWHILE, run_ids, NOISY)]


async def quiet_runs_among(projects: TwoProjects, load: Load) -> list[dict[str, Any]]:
    """Flood, and once the flood's first runs have ended, let the quiet project make its runs one after the other."""
    flooding = asyncio.create_task(projects.flood(load))
    run_ids = []
    await projects.until_ended(NOISY, ACTIVE_RUNS // 2)
    before = await projects.ended(QUIET)
    for number in range(load.quiet_runs):
        run_ids.append(await projects.submit(QUIET, 1_000_000 + number))
        await projects.until_ended(QUIET, before + number + 1)
    await flooding
    return await projects.meanwhile(run_ids)
