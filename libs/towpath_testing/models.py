"""What stands for a model: decisions written beforehand, a function, or one that tries what it may.

Whichever it is, its answer goes through the decider's reading, repair and checks, as a model's words do.
"""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pydantic_core import to_json

from towpath.agents.operations import AnyMove, move_json
from towpath.agents.request import AgentRequest
from towpath.declared_places import checks_call
from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.assessments import NEUTRAL
from towpath_contracts.decisions.request import Cost, DecisionRequest, Usage
from towpath_decider.adapters.provider import OnText
from towpath_decider.core.conversation import ModelCallFailure, ModelQuestion, ModelReply

ModelFunction = Callable[[AgentRequest], AnyMove | JsonObject | str | Awaitable[AnyMove | JsonObject | str]]
"""Takes what a model is asked and returns its decision, or the text that it would have written."""

FREE = Cost(usd=0.0, price_known=True, price_source="testing")


class ModelScript:
    """Decisions that are played in their order; with `agent` an entry is that agent's alone (docs/testing.md)."""

    def __init__(self, entries: Sequence[Any]) -> None:
        self.entries = [move_json(one) for one in entries]


@checks_call
def script(entries: Sequence[AnyMove | JsonObject | str]) -> ModelScript:
    """Return a model that says *entries* one after the other: moves, decisions as JSON, or texts as they are."""
    return ModelScript(entries)


class FunctionProvider:
    """Asks a function of the test, for whatever model a network names."""

    def __init__(self, function: ModelFunction) -> None:
        self._function = function

    async def complete(
        self, request: DecisionRequest, question: ModelQuestion, on_text: OnText | None = None
    ) -> ModelReply | ModelCallFailure:
        """Return what the function says; an assessment that it has nothing to say about gets the neutral answer."""
        answer = self._function(AgentRequest(request))
        said = await answer if inspect.isawaitable(answer) else answer
        if said is None and request.kind in NEUTRAL:
            said = NEUTRAL[request.kind]
        text = said if isinstance(said, str) else to_json(move_json(said)).decode()
        return ModelReply(text=text, usage=Usage(model_calls=1), cost=FREE)

    def offers_tools(self, _request: DecisionRequest) -> bool:
        """Return False: a function gets its tools as data."""
        return False

    async def close(self) -> None:
        """Hold nothing, give nothing back."""
        return


class EveryProvider(dict[str, Any]):
    """Providers by name, of which every one is the same."""

    def __init__(self, provider: Any) -> None:
        super().__init__()
        self._provider = provider

    def get(self, _name: str, _default: Any = None) -> Any:
        return self._provider
