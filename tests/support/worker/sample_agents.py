"""An agent whose message says what it does, and hooks that write down what they hear."""

import asyncio
import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

from towpath import AgentError, AgentRequest, BaseAgent, Secret, hook, tool
from towpath.agents.operations import AnyMove, create_gate, evaluate_confidence, execute_tool, respond
from towpath.hooks import HOOK_EVENTS, Hook, HookEvent
from towpath_contracts.decisions.assessments import (
    ConfidenceAnswer,
    CriterionJudgement,
    FinalSummaryAnswer,
    ProgressAnswer,
    ResultValidationAnswer,
)

SECRET = "SAMPLE_SECRET"
PLACE = "SAMPLE_PLACE"


def place() -> Path:
    return Path(os.environ[PLACE])


def write_down(role: str, **line: Any) -> None:
    with (place() / f"{role}.jsonl").open("a") as file:
        file.write(json.dumps({"pid": os.getpid(), **line}) + "\n")


class Sampler(BaseAgent):
    """Does what the message says."""

    name = "sampler"

    async def plan(self, request: AgentRequest) -> AnyMove:
        match request.message or str(request.run.get("goal", "")):
            case "look" | "look unpriced":
                return await self._look(request, usd=0.25 if request.message == "look" else None)
            case "slow":
                return await self._slow(request)
            case "fail":
                raise RuntimeError(f"the password is {os.environ[SECRET]}")
            case "busy":
                raise AgentError("too_busy", "later")
            case "nonsense" if not request.feedback:
                return {"action": "DANCE"}  # type: ignore[return-value] - as a person who uses no type checker may
            case "careful":
                return self._careful(request)
        return respond(f"{request.message}: {len(request.feedback)} refused")

    async def _look(self, request: AgentRequest, usd: float | None) -> AnyMove:
        async with request.model_call("local:tiny") as call:
            call.used(input_tokens=10, output_tokens=5, usd=usd)
        if request.results("sample.look"):
            return respond({"seen": request.results("sample.look")})
        return execute_tool("sample.look", where="here")

    async def _slow(self, request: AgentRequest) -> AnyMove:
        """Never answer the first time; who is asked after that has heard of it and answers."""
        marker = place() / f"slow-{request.run_id}"
        if not marker.exists():
            marker.write_text(str(os.getpid()))
            await asyncio.sleep(600)
        return respond({"pid": os.getpid()})

    def _careful(self, request: AgentRequest) -> AnyMove:
        match request.step:
            case 1:
                return evaluate_confidence(execute_tool("sample.look", where="here"), 0.8)
            case 2:
                return create_gate("May I say so?", seen=len(request.outputs))
        return execute_tool("sample.look", where="there")

    async def validate(self, request: AgentRequest) -> ResultValidationAnswer:
        shown = request.assessment["evidence"][-1]["name"]
        found = tuple(
            CriterionJudgement(criterion=number, met=len(request.outputs) > 1, evidence=f"it looked: {shown}")
            for number, _ in enumerate(request.run.get("acceptance_criteria", ()))
        )
        return ResultValidationAnswer(valid=True, criteria=found)

    async def evaluate_confidence(self, request: AgentRequest) -> ConfidenceAnswer:
        return ConfidenceAnswer(confidence=0.9, reason="I looked")

    def evaluate_progress(self, request: AgentRequest) -> ProgressAnswer:  # type: ignore[override] - plain on purpose
        return ProgressAnswer(progress=0.5)

    async def summarize(self, request: AgentRequest) -> FinalSummaryAnswer:
        return FinalSummaryAnswer(summary="looked around")

    async def deliverable(self, request: AgentRequest) -> dict[str, Any]:
        if request.run["objective"] == "break":
            raise RuntimeError(f"no deliverable for {os.environ[SECRET]}")
        return {"objective": request.run["objective"]}


@tool(toolset="sample", name="sample.look", effect_class="pure")
def look(where: str, password: Annotated[str, Secret(f"env:{SECRET}")]) -> str:
    """Look somewhere; what a secret opens does not show."""
    return f"{where}: {len(password)} locks opened"


def heard(event: HookEvent) -> None:
    """Write down what was heard: all of it, so that a test can look for what should not be there."""
    said = {field.name: str(getattr(event, field.name)) for field in fields(event)}
    write_down("agent" if event.agent else "worker", **said)


def broken(event: HookEvent) -> None:
    """Fail with a secret in the words, as hooks do."""
    write_down("broken", name=event.name)
    raise RuntimeError(f"{event.name}: {os.environ[SECRET]}")


BROKEN = ("pre_model_call", "pre_tool_call")
on_start, on_finished, on_error, on_model, on_modelled, on_tool, on_tooled, on_run = (
    hook(name)(heard) for name in HOOK_EVENTS
)
first_fails, second_fails = (Hook(name, broken) for name in BROKEN)
