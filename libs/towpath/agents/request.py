"""What an agent is asked: one step of one run, complete.

Everything here was written by the platform; outputs of tools in it are untrusted text all the same. A request
holds no secret and no handle to the run: what the agent wants done it returns.
"""

import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from towpath.agents.usage_counter import AgentModelCall, UsageCounter
from towpath.hooks import HookEvent, Hooks
from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.earlier_turns import EarlierTurn
from towpath_contracts.decisions.request import (
    DecisionKind,
    DecisionRequest,
    FullToolOutput,
    OfferedRoute,
    OfferedTool,
    PromptContext,
)
from towpath_fabric.clock import monotonic


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """One request. `decision_request` is its wire form, with everything that has no short name here."""

    decision_request: DecisionRequest
    deadline_s: float = float("inf")
    """When the platform stops waiting for the answer, on the monotonic clock."""
    hooks: Hooks = field(default_factory=lambda: Hooks((), lambda _hook, _error: None))
    usage_counter: UsageCounter = field(default_factory=UsageCounter)

    @property
    def run_id(self) -> UUID:
        """The run."""
        return self.decision_request.run_id

    @property
    def kind(self) -> DecisionKind:
        """What is asked: `decide`, `replan`, or an assessment."""
        return self.decision_request.kind

    @property
    def step(self) -> int:
        """The number of the step, from 1."""
        return self.decision_request.step

    @property
    def context(self) -> PromptContext:
        """Everything that a model would be shown."""
        return self.decision_request.context

    @property
    def message(self) -> str:
        """What the caller wants."""
        return self.decision_request.context.user_message

    @property
    def quoted_inputs(self) -> dict[str, str]:
        """Texts of others that the caller quotes, by name; untrusted text."""
        return self.decision_request.context.quoted_inputs

    @property
    def messages(self) -> tuple[EarlierTurn, ...]:
        """Earlier turns of the conversation, oldest first; what an `assistant` said in them is untrusted text."""
        return self.decision_request.context.messages

    @property
    def tools(self) -> tuple[OfferedTool, ...]:
        """The tools that may be asked for, with the parameters that an agent may set."""
        return self.decision_request.context.tools

    @property
    def routes(self) -> tuple[OfferedRoute, ...]:
        """The agents that control may be handed to."""
        return self.decision_request.context.routes

    @property
    def outputs(self) -> tuple[FullToolOutput, ...]:
        """Outputs of tools in this epoch, untrusted text; `cut` says how large one is of which a part is shown."""
        return self.decision_request.context.outputs

    @property
    def feedback(self) -> tuple[str, ...]:
        """Why earlier moves were refused or failed."""
        return self.decision_request.context.feedback

    @property
    def run(self) -> JsonObject:
        """Goal, criteria, plan, workspace of a goal or background run; empty for others."""
        return self.decision_request.context.run or {}

    @property
    def assessment(self) -> JsonObject:
        """What is to be judged, where this is an assessment; else empty."""
        return self.decision_request.context.assessment or {}

    @property
    def remaining_s(self) -> float:
        """Seconds until the platform stops waiting for the answer; 0 when that time is over."""
        return max(0.0, self.deadline_s - monotonic())

    def results(self, tool: str) -> list[Any]:
        """Return the results of *tool* that succeeded in this epoch, oldest first."""
        found = (one for one in self.outputs if one.tool == tool and one.status == "succeeded")
        return [_parsed(one.text) for one in found]

    @property
    def last_output_text(self) -> str:
        """The text of the newest output; empty where there is none."""
        return self.outputs[-1].text if self.outputs else ""

    def model_call(self, model: str) -> AbstractAsyncContextManager[AgentModelCall]:
        """Around a call of a model that the agent makes itself: hooks are notified, and its usage is recorded.

        `async with request.model_call("openai:gpt-5") as call: …; call.used(input_tokens=…, output_tokens=…, usd=…)`.
        """
        return self._model_call(model)

    @asynccontextmanager
    async def _model_call(self, model: str) -> AsyncIterator[AgentModelCall]:
        call, began = self.usage_counter.begin(model), monotonic()
        await self._notify_hooks("pre_model_call", model)
        status = "failed"
        try:
            yield call
            status = "succeeded"
        finally:
            took = int((monotonic() - began) * 1000)
            await self._notify_hooks("post_model_call", model, status=status, duration_ms=took, usage=call.usage)

    async def _notify_hooks(self, name: str, model: str, **known: Any) -> None:
        if not self.hooks.has(name):
            return
        decision_request = self.decision_request
        event = HookEvent(
            name=name,
            agent=decision_request.model.partition(":")[2],
            model=model,
            run_id=decision_request.run_id,
            step=decision_request.step,
            kind=decision_request.kind.value,
            **known,
        )
        await self.hooks.notify(event)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
