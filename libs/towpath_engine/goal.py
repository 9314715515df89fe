"""Goal runs: what comes after an action, and when a goal is reached (design §5, features C1-C9).

Law: a goal is reached when its criteria are met by what happened; a model's own "done" only makes them be looked at.
"""

from collections.abc import Callable

from towpath_contracts.base import JsonObject
from towpath_contracts.deciding import DecisionKind
from towpath_contracts.decisions import Finish
from towpath_engine.ending import finish
from towpath_engine.state import Status
from towpath_engine.transition import Transition


def goal_claimed(t: Transition, instruction: Finish) -> bool:
    """Take a model's word that it is done."""
    finish(t, Status.COMPLETED, "responded", "", final=instruction.payload)
    return True


GOAL_PHASES: tuple[Callable[[Transition], bool], ...] = ()
GOAL_CHECKS: tuple[Callable[[Transition], bool], ...] = ()
GOAL_ANSWERS: dict[DecisionKind, Callable[[Transition, JsonObject | None], None]] = {}
