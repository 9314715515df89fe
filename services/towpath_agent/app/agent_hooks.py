"""Notifies the hooks of an agent.

They are notified in this order: pre_model_call, the outputs that came back, the calls that the agent proposes, and
post_model_call. A request that another process died over may be reported again.
"""

import json
from collections.abc import Iterator
from typing import Any

from towpath.hooks import HookEvent, Hooks
from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.request import DecisionKind, DecisionRequest, Usage

ACTING = frozenset({DecisionKind.DECIDE, DecisionKind.REPLAN})
"""Kinds of requests that follow an action: the first of them reports what the action returned."""


class AgentHookNotifier:
    """Notifies the hooks of one agent in one process."""

    def __init__(self, hooks: Hooks, *, worker: str, agent: str) -> None:
        self.hooks = hooks
        self._worker = worker
        self._agent = agent

    async def process_event(self, name: str) -> None:
        """Report `start` or `finished` of the process."""
        await self.hooks.notify(HookEvent(name=name, worker=self._worker, agent=self._agent))

    async def request_received(self, request: DecisionRequest) -> None:
        """Report the request, and what the agent's last calls returned."""
        await self._notify("pre_model_call", request)
        if request.kind in ACTING and self.hooks.has("post_tool_call"):
            for output in request.context.outputs:
                if output.step == request.step - 1:
                    await self._notify("post_tool_call", request, tool=output.tool, status=output.status)

    async def answer_made(self, request: DecisionRequest, answer: JsonObject, took_ms: int, usage: Usage) -> None:
        """Report the calls that the agent proposes, and its answer."""
        if request.kind in ACTING and self.hooks.has("pre_tool_call"):
            for tool, params in _proposed_calls(answer):
                await self._notify("pre_tool_call", request, tool=tool, args=params)
        await self._notify("post_model_call", request, status="succeeded", duration_ms=took_ms, usage=usage)

    async def answer_failed(self, request: DecisionRequest, code: str, took_ms: int, usage: Usage) -> None:
        """Report that there is no answer."""
        known: JsonObject = {"status": code, "duration_ms": took_ms, "usage": usage}
        await self._notify("error", request, **known)
        await self._notify("post_model_call", request, **known)

    async def _notify(self, name: str, request: DecisionRequest, **known: Any) -> None:
        if not self.hooks.has(name):
            return
        event = HookEvent(
            name=name,
            worker=self._worker,
            agent=self._agent,
            model=request.model,
            run_id=request.run_id,
            step=request.step,
            kind=request.kind.value,
            **known,
        )
        await self.hooks.notify(event)


def _proposed_calls(answer: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """Return the calls of a decision that is known to be one; each hook gets copies of its own."""
    if answer.get("action") != "USE_TOOL":
        return
    details = json.loads(json.dumps(answer["action_details"]))
    for one in details.get("calls") or [details]:
        yield one["tool_name"], one.get("tool_params", {})
