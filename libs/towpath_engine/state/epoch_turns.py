"""The part of a run's state that keeps what the acting agent was told and decided since it took control."""

from dataclasses import dataclass

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.epoch_turns import EpochTurn


@dataclass(frozen=True, kw_only=True)
class KeptEpochTurns:
    """The turns of the acting agent, the oldest first, as far as there is room.

    `sizes` are their bytes, `left_out` counts those that had to go, `log` is the end of the execution log at the moment
    in which the agent took control.
    """

    log: tuple[JsonObject, ...] = ()
    turns: tuple[EpochTurn, ...] = ()
    sizes: tuple[int, ...] = ()
    left_out: int = 0
