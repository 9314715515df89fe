"""The protocol of model providers.

A provider answers one question and never raises for what a model, a network or a wrong key does: failures are
values that say whether asking again can help. It does not wait, retry or repair; `core.conversation` decides that.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

from towpath_contracts.decisions.request import DecisionRequest
from towpath_decider.core.conversation import ModelCallFailure, ModelQuestion, ModelReply

OnText = Callable[[str], None]
"""Takes the pieces of an answer as a model writes them; it neither waits nor raises."""


class TextListener(Protocol):
    """Receives the text of one model call while it is written."""

    def on_text(self, text: str) -> None:
        """Receive the next piece of the text."""

    def end(self) -> None:
        """The call is over: no more text follows."""


class Provider(Protocol):
    """A source of answers."""

    async def complete(
        self, request: DecisionRequest, question: ModelQuestion, on_text: OnText | None = None
    ) -> ModelReply | ModelCallFailure:
        """Ask *question*, which is part of *request*; may be cancelled at any await.

        With *on_text* the answer is streamed where that can be; what is returned is the same.

        Raises PlatformUnavailableError alone, where something of the platform itself was needed and could not be had.
        """
        ...

    def offers_tools(self, request: DecisionRequest) -> bool:
        """Return whether the model of *request* is offered its tools natively, so that its prompt says so."""
        ...

    async def close(self) -> None:
        """Give back what the provider holds; it is not asked again."""
        ...


def model_name(model: str) -> str:
    """Return the part of `provider:model` that the provider knows."""
    return model.partition(":")[2]


def http_client_options() -> dict[str, Any]:
    """Return how the HTTP client of a provider is made: bounded, and without redirects, since the key would go along.

    Loaded with the provider's SDK, since an HTTP client takes long to be imported.
    """
    options: dict[str, Any] = import_module("towpath_decider.adapters.answer_bounds").client_options()
    return options
