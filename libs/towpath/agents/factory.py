"""Deliverable factories: a function that makes what a background run hands over, served like any agent.

It is asked once, at the end; what it gets wrong fails the run. It decides nothing else.
"""

from collections.abc import Callable
from typing import Any

from towpath.agents.base import BaseAgent, Deliverable
from towpath.agents.operations import AnyMove
from towpath.agents.request import AgentRequest
from towpath.errors import AgentError
from towpath.user_code import call_method

Make = Callable[[AgentRequest], Any]
"""Takes the request to summarize; returns a dict or a pydantic model, or raises. Plain or async."""


class DeliverableAgent(BaseAgent):
    """An agent that makes deliverables alone."""

    def __init__(self, name: str, make: Make) -> None:
        self.name = name
        self._make = make

    async def plan(self, request: AgentRequest) -> AnyMove:
        """Refuse: a factory takes no step of a run."""
        raise AgentError("factory_only", f"{self.name} makes deliverables and decides nothing")

    async def deliverable(self, request: AgentRequest) -> Deliverable:
        """Make the deliverable."""
        made: Deliverable = await call_method(self._make, request)
        return made


def deliverable_factory(name: str) -> Callable[[Make], DeliverableAgent]:
    """Declare a factory: `@deliverable_factory("report_maker")` over a function of one AgentRequest.

    Serve it with `towpath agents serve module:function`, and name it in the objective: `factory="report_maker"`.
    """
    return lambda make: DeliverableAgent(name, make)
