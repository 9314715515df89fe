"""What an agent says of the models it called itself: tokens and money of one answer.

An unknown price is unknown and never 0; nothing here can make a sum smaller.
"""

import math
from dataclasses import dataclass, field

from towpath_contracts.decisions.request import Cost, Usage


@dataclass(slots=True)
class AgentModelCall:
    """One call of a model. `used` may be called more than once; it adds up."""

    model: str
    usage: Usage = field(default_factory=lambda: Usage(model_calls=1))
    usd: float | None = None

    def used(self, *, input_tokens: int = 0, output_tokens: int = 0, usd: float | None = None) -> None:
        """Record what the provider counted; *usd* is None where the price is not known. Raises ValueError below 0."""
        if min(input_tokens, output_tokens) < 0 or (usd is not None and not 0 <= usd < math.inf):
            msg = "tokens and money of a call are never below 0, and finite"
            raise ValueError(msg)
        self.usage = Usage(
            input_tokens=self.usage.input_tokens + input_tokens,
            output_tokens=self.usage.output_tokens + output_tokens,
            total_tokens=self.usage.total_tokens + input_tokens + output_tokens,
            model_calls=1,
        )
        if usd is not None:
            self.usd = usd + (self.usd or 0.0)


@dataclass(slots=True)
class UsageCounter:
    """The model calls of one answer: none makes it free, and a call without a price makes the cost unknown."""

    calls: list[AgentModelCall] = field(default_factory=list)

    def begin(self, model: str) -> AgentModelCall:
        """Count a call."""
        call = AgentModelCall(model)
        self.calls.append(call)
        return call

    def usage(self) -> Usage:
        """Return the tokens of all calls."""
        counts = [call.usage for call in self.calls]
        return Usage(
            input_tokens=sum(one.input_tokens for one in counts),
            output_tokens=sum(one.output_tokens for one in counts),
            total_tokens=sum(one.total_tokens for one in counts),
            model_calls=len(counts),
        )

    def cost(self) -> Cost:
        """Return the money of all calls."""
        prices = [call.usd for call in self.calls]
        if None in prices:
            return Cost(usd=None, price_known=False, price_source="agent")
        return Cost(usd=sum(usd for usd in prices if usd is not None), price_known=True, price_source="agent")
