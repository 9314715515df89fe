"""Settings of a model's answers: of an agent, of a task, and of one request.

None is set by default: what nobody chose is left to the provider. They say how a model writes, and never what it may
do, so a task may choose others than the network.
"""

from typing import Annotated, Literal

from pydantic import Field

from towpath_contracts.base import ClientMessagePart, is_unset

ReasoningEffort = Literal["none", "minimal", "low", "medium", "high"]
"""How much a model may think before it answers; `none` is what is asked for where nobody chose."""

StopText = Annotated[str, Field(min_length=1, max_length=64)]

MAX_TOKENS = 1_000_000
"""The most that may be asked for: more than any model writes, and a budget reserves it for every call."""


class ModelSettings(ClientMessagePart):
    """What a model is asked with; a provider that has no such option, or refuses it, is asked without."""

    temperature: float | None = Field(default=None, ge=0, le=2, allow_inf_nan=False, exclude_if=is_unset)
    max_output_tokens: int | None = Field(default=None, ge=1, le=MAX_TOKENS, exclude_if=is_unset)
    top_p: float | None = Field(default=None, gt=0, le=1, allow_inf_nan=False, exclude_if=is_unset)
    seed: int | None = Field(default=None, ge=0, le=2**31 - 1, exclude_if=is_unset)
    reasoning_effort: ReasoningEffort | None = Field(default=None, exclude_if=is_unset)
    stop: tuple[StopText, ...] = Field(default=(), max_length=4, exclude_if=lambda texts: not texts)


def merge_model_settings(agent: ModelSettings | None, task: ModelSettings | None) -> ModelSettings | None:
    """Return the settings of a request: each as the task says, else as the agent does; None where nobody says any."""
    if agent is None or task is None:
        return task or agent
    return ModelSettings.model_validate({**agent.model_dump(), **task.model_dump()})
