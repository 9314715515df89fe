"""`BaseAgent`: an agent that thinks in user code and acts through the platform.

An agent proposes and judges, nothing else. The platform's loop calls its methods, checks every answer, asks the
matrix before a tool runs, opens the gates and keeps the record; no method here can go around that. A method keeps no
state of a run: the next step may be asked of another process.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import ClassVar

from pydantic import BaseModel

from towpath.agents.operations import AnyMove
from towpath.agents.request import AgentRequest
from towpath.hooks import Hook
from towpath.user_code import call_method
from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.assessments import (
    ConfidenceAnswer,
    FinalSummaryAnswer,
    ProgressAnswer,
    ReflectionAnswer,
    ResultValidationAnswer,
)

Deliverable = JsonObject | BaseModel | None
"""What a background run hands over; None where the agent makes none."""


class BaseAgent(ABC):
    """Subclass it, give it a `name`, write `plan`; serve it with `towpath agents serve module:Class`.

    Networks name it as a model: `agent:<name>`. Methods may be `async def`, or plain functions, which run in a thread.
    An exception ends the attempt: raise `AgentError` to say a code of your own and whether to try again.
    """

    name: str = ""
    """What the model string says after `agent:`; letters, digits, `_` and `-`."""

    hooks: ClassVar[tuple[Hook, ...]] = ()
    """Hooks of this agent, beside those that stand in its module."""

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Around all answers of a process: prepare what they need, a client for example, `yield`, give it back."""
        yield

    @abstractmethod
    async def plan(self, request: AgentRequest) -> AnyMove | JsonObject:
        """Return the next move: what `execute_tool`, `route`, `respond`, `create_gate` or `abandon` make."""

    async def replan(self, request: AgentRequest) -> AnyMove | JsonObject:
        """Return another move after one that failed (`request.feedback` says how). Without your own: `plan`."""
        move: AnyMove | JsonObject = await call_method(self.plan, request)
        return move

    async def validate(self, request: AgentRequest) -> ResultValidationAnswer | JsonObject:
        """Judge whether the last action did what it was for (`request.assessment`), and each text criterion.

        Without your own the action counts as done and no criterion as met: a criterion that was not judged is not met.
        """
        return ResultValidationAnswer(valid=True, reason="this agent judges no action")

    async def evaluate_progress(self, request: AgentRequest) -> ProgressAnswer | JsonObject:
        """Return how much of the goal is reached, 0 to 1. Without your own: unknown."""
        return ProgressAnswer(progress=None, reason="this agent measures no progress")

    async def evaluate_confidence(self, request: AgentRequest) -> ConfidenceAnswer | JsonObject:
        """Return how sure you are that the goal will be reached, 0 to 1; below 0.5 a person is asked. Default: sure."""
        return ConfidenceAnswer(confidence=1.0, reason="this agent does not judge its own confidence")

    async def reflect(self, request: AgentRequest) -> ReflectionAnswer | JsonObject:
        """Return what becomes of the run after a failure, or once its plan is completed. Without your own: continue."""
        return ReflectionAnswer(verdict="continue", note="this agent does not reflect")

    async def deliverable(self, request: AgentRequest) -> Deliverable:
        """Make what a background run hands over, when it ends; an exception here fails the run.

        The platform checks it against the task's schema. It may be asked again where this process dies before its
        answer is stored, so it should only compute.
        """
        return None

    async def summarize(self, request: AgentRequest) -> FinalSummaryAnswer | JsonObject:
        """Say the run's last words, and hand over its `deliverable`. Without your own: the last output's text."""
        return FinalSummaryAnswer(summary=request.last_output_text or "The run ended without an output.")
