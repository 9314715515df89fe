"""A lock keeper: an agent that thinks in plain Python and acts through the platform.

It looks at the water before it opens a gate, explains why it does not, and asks a person where its own rule has none.
"""

from towpath import AgentError, AgentRequest, BaseAgent, hook
from towpath.agents.operations import AnyMove, create_gate, execute_tool, respond
from towpath.hooks import HookEvent
from towpath_contracts.decisions.assessments import ConfidenceAnswer, ResultValidationAnswer

SAFE_DIFFERENCE_CM = 5
"""With more between the two levels nobody can push a gate open."""

MOST_BOATS = 2


class LockKeeper(BaseAgent):
    """Lets boats through a lock."""

    name = "lock_keeper"

    async def plan(self, request: AgentRequest) -> AnyMove:
        """Measure, then open; one step at a time, since the next one may be asked of another process."""
        levels = request.results("lock.levels")
        if request.results("lock.open"):
            return respond(f"The gate is open for {request.message}.", reasoning="The boat may pass.")
        if not levels:
            return execute_tool("lock.levels", reasoning="Nobody opens a gate before looking at the water.")
        boats = request.message.split(" and ")
        if len(boats) > MOST_BOATS and request.context.run_kind != "network":
            return create_gate("More boats than the lock holds", boats=boats, reasoning="My rule ends here.")
        difference = abs(levels[-1]["above_cm"] - levels[-1]["below_cm"])
        if difference > SAFE_DIFFERENCE_CM:
            return respond(f"The water still differs by {difference} cm.", reasoning="The gate would not move.")
        return execute_tool("lock.open", boat=request.message, reasoning=f"{difference} cm are little enough.")

    async def validate(self, request: AgentRequest) -> ResultValidationAnswer:
        """A gate that was opened says so itself; nothing else needs a judgement."""
        opened = bool(request.results("lock.open"))
        return ResultValidationAnswer(
            valid=True, reason="the lock reports the open gate" if opened else "nothing was opened yet"
        )

    async def evaluate_confidence(self, request: AgentRequest) -> ConfidenceAnswer:
        """Sure, unless the lock has not answered at all."""
        if not request.results("lock.levels"):
            raise AgentError("lock_silent", "no level was ever measured")
        return ConfidenceAnswer(confidence=0.9, reason="the levels were measured")


@hook("post_model_call")
def note(event: HookEvent) -> None:
    """Say in the process's log that the keeper has answered."""
    print(f"{event.agent} answered {event.kind} of step {event.step}: {event.status}", flush=True)  # noqa: T201
