"""What clients of OpenAI are told of a run that waits for a person: the gates, where their key may see these."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.gateway.protocols.test_a2a import GATE, RUN, gate, principal, view

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.views import GatePage, GateView, ListGates, RunView
from towpath_contracts.tasks import RunAccepted
from towpath_gateway.adapters.untaken_calls import wait_for_worker
from towpath_gateway.app.protocols.openai import model_runs
from towpath_gateway.app.protocols.openai.model_answers import response_object
from towpath_gateway.app.protocols.openai.waiting_gates import waiting_gates

TOLD = {"gate_id": str(GATE), "gate_type": "approval", "tool": "orders.refund", "summary": "Refund 200"}
REFUND = {"tool": "orders.refund", "args": {"amount": 200}, "summary": "Refund {amount}"}
WAITS = view("waiting", waits=("approval: large",))


class Orchestrator:
    """Lists the gates of one run; those *below* are found by the root alone."""

    def __init__(self, found: GateView | None, *, below: bool = True) -> None:
        self.asked: list[ListGates] = []
        self.untaken: tuple[str, ...] = ()
        self._found = found
        self._below = below

    async def request(self, _call: Any, asked: ListGates) -> GatePage:
        self.asked.append(asked)
        if self._found is None:
            raise ProblemError(problem("unavailable", "the orchestrator is away"))
        return GatePage(gates=(self._found,) if (asked.root_run_id is not None) is self._below else ())

    async def wait_for_end(self, *_: Any) -> Any:
        return WAITS

    async def with_untaken_calls(self, found: RunView) -> RunView:
        return found.model_copy(update={"waits": (*found.waits, *self.untaken)})


def behind(platform: Orchestrator) -> Any:
    settings = SimpleNamespace(run_wait_s=120)
    return SimpleNamespace(platform=platform, settings=settings, stopping=asyncio.Event())


@pytest.mark.parametrize("below", [True, False])
async def test_what_waits_in_a_run_or_below_it_names_its_gate_tool_and_call(below: bool) -> None:
    platform = Orchestrator(gate(detail=REFUND), below=below)
    found = await waiting_gates(behind(platform), principal(), WAITS)
    assert found == [TOLD]
    assert {(one.project, one.paused, one.limit, one.status) for one in platform.asked} == {
        ("shop", False, 16, "pending")
    }
    assert [one.root_run_id or one.run_id for one in platform.asked] == [RUN] * (1 if below else 2)
    told = response_object(WAITS, {}, (), found)["towpath"]
    assert (told["waits"], told["gates"]) == (["approval: large"], [TOLD])
    assert "gates" not in response_object(WAITS, {}, ())["towpath"]
    doubted = REFUND | {"origins": [{"path": "amount", "from": "untrusted", "tool": "mail.read", "step": 2}]}
    (shown,) = await waiting_gates(behind(Orchestrator(gate(detail=doubted))), principal(), WAITS)
    assert shown["doubts"] == ["amount (mail.read, step 2): found in untrusted output alone, so check it"]
    bare = Orchestrator(gate(detail={}, gate_type="escalation"))
    assert await waiting_gates(behind(bare), principal(), WAITS) == [{"gate_id": str(GATE), "gate_type": "escalation"}]


async def test_no_gate_is_told_to_a_key_that_may_see_none_nor_where_nothing_waits_or_nobody_says() -> None:
    platform = Orchestrator(gate(detail=REFUND))
    assert await waiting_gates(behind(platform), principal(scopes=frozenset({"runs:read"})), WAITS) == []
    assert await waiting_gates(behind(platform), principal(), view("running")) == []
    assert await waiting_gates(behind(platform), principal(), None) == [] and not platform.asked
    assert await waiting_gates(behind(Orchestrator(None)), principal(), WAITS) == []


async def test_a_wait_that_is_over_names_the_toolset_whose_worker_is_missing() -> None:
    class WithoutWorker(Orchestrator):
        async def wait_for_end(self, *_: Any) -> Any:
            return view("running")

    platform = WithoutWorker(None)
    platform.untaken = (wait_for_worker("orders"),)
    accepted = RunAccepted.model_validate({**view("queued").model_dump(include=set(RunAccepted.model_fields))})
    with pytest.raises(ProblemError) as refused:
        await model_runs._ended(behind(platform), principal(), accepted, "wait=2")
    said = "the run is running after 2 s and waits: tool: no worker takes calls of the toolset orders (start the one"
    assert said in str(refused.value.problem.detail)


async def test_a_wait_that_is_over_names_the_gate_and_how_it_is_decided() -> None:
    accepted = RunAccepted(
        run_id=RUN,
        project="shop",
        status="queued",
        network="support",
        version=3,
        snapshot_digest="d",
        created_at=WAITS.created_at,
    )

    async def refusal(scopes: set[str]) -> str:
        asks = principal(scopes=frozenset(scopes))
        with pytest.raises(ProblemError) as refused:
            await model_runs._ended(behind(Orchestrator(gate(detail=REFUND))), asks, accepted, "wait=2")
        assert refused.value.problem.code == "timeout"
        return f"{refused.value.problem.detail}\n{refused.value.problem.remedy}"

    shown = await refusal({"runs:write", "gates:read"})
    assert f"after 2 s and waits: approval: large, at gate {GATE}\n" in shown
    assert shown.endswith(f"To decide: `towpath gates approve {GATE}`, or deny.")
    hidden = await refusal({"runs:write"})
    assert "waits: approval: large\n" in hidden and "towpath gates" not in hidden and str(GATE) not in hidden
