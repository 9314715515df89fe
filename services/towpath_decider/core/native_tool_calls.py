"""Native tool calls of a model, read as the decision that they mean.

No provider is asked for native calls; where a server makes one of the answer all the same, it is no more than
another way of writing USE_TOOL. Arguments stay as the model wrote them: reading them is the contract's.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic_core import to_json

from towpath_contracts.base import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeCall:
    """A tool's name, and its arguments: an object, or the text of one."""

    name: str
    arguments: JsonObject | str


def as_decision(calls: Iterable[NativeCall]) -> str:
    """Return the decision that *calls* mean, as the text a model would have written."""
    proposals = [{"tool_name": call.name, "tool_params": call.arguments} for call in calls]
    details = proposals[0] if len(proposals) == 1 else {"calls": proposals}
    return to_json({"action": "USE_TOOL", "action_reasoning": "", "action_details": details}).decode()
