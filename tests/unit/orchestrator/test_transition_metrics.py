"""Row E10: what is counted and logged of plans, who writes them, and the switch of the tool."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from prometheus_client import CollectorRegistry
from pydantic import ValidationError
from structlog.testing import LogCapture
from tests.support.engine.machine import agent, snapshot, use
from tests.support.engine.plan_machine import PlanRun, ask, block, step
from tests.support.engine.team_machine import TeamLeadRun

from towpath_contracts.networks.child_tools import ORCHESTRATE
from towpath_contracts.networks.spec import NetworkVersion
from towpath_contracts.runs.children import ParentRun
from towpath_contracts.tasks import SubmitTask
from towpath_fabric.clock import wall
from towpath_fabric.tickets import TicketSigner
from towpath_orchestrator.adapters.run_store import Transition
from towpath_orchestrator.app.commit.run_telemetry import TransitionMetrics
from towpath_orchestrator.core.budget_scopes import models_of
from towpath_orchestrator.core.tasks import created_event
from towpath_orchestrator.metrics import OrchestratorMetrics
from towpath_orchestrator.settings import OrchestratorSettings
from towpath_tas.metrics import TasMetrics
from towpath_tas.settings import TasSettings
from towpath_tas.wiring.call_wiring import CallWiring, TasConnections

KEYS = ("tool", "step_id", "agent_key", "exec_id", "latency_ms", "status")


class Told:
    """A run of a plan whose every transition is measured."""

    def __init__(self, run: PlanRun) -> None:
        self.run = run
        self.registry = CollectorRegistry()
        self.lines = LogCapture()
        log: Any = structlog.wrap_logger(structlog.PrintLogger(), processors=[self.lines])
        self._metrics = TransitionMetrics(OrchestratorMetrics(self.registry), log)

    def end(self, place: int = 0, **more: Any) -> None:
        before, known = self.run.state, len(self.run.entries)
        self.run.end(place, **more)
        entries = self.run.entries[known:]
        self._metrics.observe(Transition(before_seq=before.seq, before=before, state=self.run.state, entries=entries))

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


def test_e10_every_step_and_agent_of_a_plan_is_logged_and_counted() -> None:
    """Row E10: telemetry per step — log keys tool, step_id, agent_key, exec_id, latency, status; plans by end."""
    found = Told(PlanRun(step("ann", id="first"), block(ask("bob"), ask("cid"), id="fan")))
    ann = found.run.children[0].child_id
    found.end(after=2)
    found.end(1, status="failed", reason="loop_detected", after=1)
    found.end(0, after=1)
    assert [tuple(line[key] for key in KEYS if key != "exec_id") for line in found.lines.entries] == [
        ("plan", "first", "ann", 2_000, "completed"),
        ("plan", "first", "ann", 2_000, "success"),
        ("plan", "fan[1]", "cid", 1_000, "failed"),
        ("plan", "fan[0]", "bob", 2_000, "completed"),
        ("plan", "fan", "", 2_000, "partial"),
    ]
    assert [line["exec_id"] for line in found.lines.entries][:2] == [str(ann)] * 2
    assert found.value("towpath_plans_finished_total", kind="plan", status="failed") == 1
    assert found.value("towpath_runs_finished_total", status="failed") == 1
    took = found.value("towpath_run_seconds_sum", kind="plan", status="failed")
    born = datetime.fromtimestamp((found.run.state.run_id.int >> 80) / 1_000, tz=UTC)
    assert took == (found.run.entries[-1].at - born).total_seconds(), "from its birth until its end"
    failure = {"gen_ai_workflow_name": found.run.state.created.network, "error_type": found.run.state.reason}
    assert found.value("gen_ai_invoke_workflow_duration_seconds_sum", **failure) == took
    assert found.value("towpath_run_steps_count", kind="plan") == 1
    assert found.value("towpath_run_steps_sum", kind="plan") == found.run.state.step
    assert found.value("towpath_plan_steps_total", type="agent", status="success") == 1
    assert found.value("towpath_plan_steps_total", type="parallel", status="partial") == 1
    assert found.value("towpath_plan_step_seconds_sum", type="parallel") == 2


def test_e10_what_would_stand_too_deep_is_counted() -> None:
    """Row E10: recursion denials counted."""
    above = ParentRun(run_id=UUID(int=7), root_id=UUID(int=7), step=1, index=0, depth=3)
    run = TeamLeadRun(parent=above, cursors={})
    run.decide(use(ORCHESTRATE, prompt="Go deeper."))
    run.permit(0)
    assert [one.failure.code for one in run.results if one.failure] == ["depth_exceeded"]
    found = Told(PlanRun(step("ann")))
    found._metrics.observe(Transition(before_seq=0, before=None, state=run.state, entries=run.entries))
    assert found.value("towpath_recursion_denials_total") == 1


def created(planner: str | None = "openai:planner", tools: tuple[str, ...] = (), **task: Any) -> Any:
    network = snapshot(agent("lead", default=True, allow_respond=True)).model_copy()
    agents = {key: one.model_copy(update={"equipped_tools": tools}) for key, one in network.agents.items()}
    version = NetworkVersion(
        project="default", name="desk", version=1, digest="sha256:0", published_at=wall(), published_by="me"
    )
    given = SubmitTask.model_validate({"network": "desk", "user_message": "Hi.", **task})
    return created_event(given, version, network.model_copy(update={"agents": agents}), "me", None, None, planner)


def test_e10_plans_are_written_by_the_planner_of_the_settings() -> None:
    """Row E10: planner model in settings; a task that names its model, or brings a script, is planned by that."""
    asked = created(plan={"prompt": "Plan it."})
    assert asked.planner_model == "openai:planner" and "openai:planner" in models_of(asked, snapshot())
    assert created(tools=(ORCHESTRATE,)).planner_model == "openai:planner", "its children may be asked for plans"
    plain = created()
    assert plain.planner_model is None and "planner_model" not in plain.model_dump_json()
    assert created(plan={"prompt": "Plan it."}, model="openai:mine").planner_model is None
    assert created(plan={"prompt": "Plan it."}, script=[{}]).planner_model is None
    with pytest.raises(ValidationError, match="is not provider:model"):
        OrchestratorSettings(planner_model="planner")


class Empty:
    """A database in which nobody has registered anything."""

    async def fetch(self, *_: object) -> list[Any]:
        return []

    async def fetchrow(self, *_: object) -> None:
        return None


@pytest.mark.parametrize("on", [True, False])
async def test_e10_the_tool_can_be_switched_off(on: bool) -> None:
    """Row E10: feature flag — without it nobody knows the tool: it can't be published, nor called."""
    nowhere: Any = None
    ports = TasConnections(pool=nowhere, bus=nowhere, asked=nowhere, ended=nowhere)
    settings = TasSettings(agent_orchestrate_enabled=on)
    log: Any = structlog.get_logger()
    parts = CallWiring(
        ports, TicketSigner(Ed25519PrivateKey.generate()), settings, TasMetrics(CollectorRegistry()), log
    )
    bundle = await parts.policy_cache.of(Empty(), "default")
    assert (ORCHESTRATE in bundle.registry.tools, "plan_setup" in bundle.registry.tools) == (on, True)
