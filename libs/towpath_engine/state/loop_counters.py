"""What the loop detectors count."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class LoopCounters:
    """Counters of the loop detectors; part of the state, so they survive restarts and agent changes.

    `window` are the last steps' signatures, `cycle` those of a cycle that they end with; `handoffs` the last ones
    without work in between, `polls` the polling decisions in a row. `*_told` is the count at which something was done
    about a loop, `nudged` names loops as often as something was. `replan` asks for another plan at the next step.
    The counts of errors at the begin of step `error_step` are kept: of a step with several attempts the last counts.
    `denied_calls` are those that were denied, and by what, since a step ended otherwise than by denials; `denied_again`
    says that the last step asked for one of them again.
    """

    call_signature: str = ""
    call_count: int = 0
    error_signature: str = ""
    error_count: int = 0
    nudged: tuple[str, ...] = ()
    error_told: int = 0
    error_step: int = 0
    error_before: tuple[str, int] = ("", 0)
    denied_calls: tuple[str, ...] = ()
    denied_again: bool = False
    window: tuple[str, ...] = ()
    cycle: tuple[str, ...] = ()
    result_signature: str = ""
    result_count: int = 0
    handoffs: tuple[str, ...] = ()
    handoff_count: int = 0
    handoff_told: int = 0
    polls: int = 0
    replan: bool = False


NOTHING_COUNTED = LoopCounters()
