"""A run takes so many gates of people at a time, and no more."""

import asyncio
from typing import Any, cast
from uuid import UUID, uuid4

import pytest

from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.runs.run_control import MAX_HOLDS, RUN_PAUSED, SteerRun
from towpath_contracts.runs.views import GatePage, GateView, GetRun, ListGates, RunView
from towpath_fabric.ports import MessageBus
from towpath_orchestrator.app.api.queries import RunQueries
from towpath_orchestrator.app.api.run_control import RunControl


class HeldRun:
    """Answers about a run that people have put *gates* gates on, and that is paused and waits for an approval too."""

    def __init__(self, gates: int) -> None:
        self.gates = gates

    async def get_run(self, request: GetRun) -> RunView:
        return RunView.model_construct(run_id=request.run_id, project=request.project, status="waiting", seq=1)

    async def list_gates(self, request: ListGates) -> GatePage:
        held = [("manual", {"holds": True})] * self.gates + [(RUN_PAUSED, {"holds": True}), ("approval", {})]
        gates = tuple(
            GateView.model_construct(gate_id=uuid4(), run_id=cast(UUID, request.run_id), gate_type=kind, detail=detail)
            for kind, detail in held
        )
        return GatePage.model_construct(gates=gates, next_after=None)


class AuditReachedError(Exception):
    """The act was let through to the audit, which comes before everything else."""


class Audit:
    """Stands where an act that is let through is told first."""

    async def request(self, *_asked: Any) -> None:
        raise AuditReachedError


def put_gate(gates: int) -> None:
    control = RunControl(cast(RunQueries, HeldRun(gates)), cast(MessageBus, Audit()))
    asyncio.run(control.steer(SteerRun(project="p", run_id=uuid4(), act="gate", actor="ann", text="look")))


def test_a_gate_too_many_is_refused_before_anything_is_recorded() -> None:
    with pytest.raises(ProblemError, match=f"run_gates_full: {MAX_HOLDS} gates"):
        put_gate(MAX_HOLDS)
    with pytest.raises(AuditReachedError):
        put_gate(MAX_HOLDS - 1)
