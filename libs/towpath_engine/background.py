"""Background runs: what comes after an action, and when an objective is reached (design §5, features D1-D13)."""

from collections.abc import Callable

from towpath_contracts.base import JsonObject
from towpath_contracts.deciding import DecisionKind
from towpath_contracts.decisions import Finish
from towpath_engine.ending import finish
from towpath_engine.state import Status
from towpath_engine.transition import Transition


def background_done(t: Transition, instruction: Finish) -> bool:
    """Take a model's explicit completion."""
    finish(t, Status.COMPLETED, "responded", "", final=instruction.payload)
    return True


BACKGROUND_PHASES: tuple[Callable[[Transition], bool], ...] = ()
BACKGROUND_CHECKS: tuple[Callable[[Transition], bool], ...] = ()
BACKGROUND_ANSWERS: dict[DecisionKind, Callable[[Transition, JsonObject | None], None]] = {}
