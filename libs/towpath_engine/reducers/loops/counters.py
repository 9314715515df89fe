"""The counters of the loop detectors: how each step changes them.

They are bounded. Only success, progress or a person's decision resets a count, never another agent or a restart. A
failure with an external cause neither counts nor resets. A step of only polling changes the number of polls alone.
"""

from collections.abc import Mapping
from datetime import datetime

from towpath_contracts.canonical import digest_text
from towpath_contracts.decisions.decision import ToolCall
from towpath_contracts.events import log as ev
from towpath_contracts.tools.calls import EffectClass, ToolSpec
from towpath_engine.reducers.loops.signatures import (
    SHORT,
    call_signature,
    denied_calls,
    errors_of,
    handoff_signature,
    refusal_signature,
    result_signature,
    step_signature,
    weight,
)
from towpath_engine.state.loop_counters import LoopCounters
from towpath_engine.state.replace import replace
from towpath_engine.state.run import RunState, StepCall

LOOP_DETECTED = "loop_detected"
"""The code of a refused loop, the type of its gate, and the reason of an end by it."""

LOOP_THRESHOLD = 3
"""Equal signatures in a row that make a loop; fires on the third."""

CYCLES = (2, 3, 4, 5, 6)
"""Lengths of the cycles that are looked for."""

SHORT_CYCLE = 3
"""A cycle of up to this many steps must come round three times; a longer one begin its third round."""

MAX_HANDOFFS = 10
"""Handoffs in a row without any work: five exchanges; the next one is ping-pong."""

TELLING = 80
"""Characters in a result that make it worth noticing when it comes again: acknowledgements have fewer."""

DENIED_KEPT = 32
"""Denied calls that are remembered, the newest."""

LONGEST_POLL_WAIT_S = 30
"""Polling backs off to this: 1, 2, 4, … seconds before each further look."""

Tools = Mapping[str, ToolSpec]


def steps_of_cycle(length: int) -> int:
    """Return how many steps of a cycle of *length* make it a loop."""
    return LOOP_THRESHOLD * length if length <= SHORT_CYCLE else 2 * length + 1


WINDOW = max(map(steps_of_cycle, CYCLES))
"""Step signatures that are kept."""


def apply_loop_detected(state: RunState, event: ev.LoopDetected, _at: datetime) -> RunState:
    return replace(state, detectors=after_loop(state.detectors, event.detector, event.signature, event.action))


def apply_step_validated(state: RunState, event: ev.StepResultValidated, _at: datetime) -> RunState:
    return replace(state, detectors=after_validation(state.detectors, event))


def after_calls(detectors: LoopCounters, calls: tuple[ToolCall, ...]) -> LoopCounters:
    """Count the calls of a decision."""
    signature = call_signature(calls)
    count = detectors.call_count + 1 if signature == detectors.call_signature else 1
    return replace(detectors, call_signature=signature, call_count=count, polls=0)


def after_polling(detectors: LoopCounters) -> LoopCounters:
    """Count a decision of nothing but polling tools: only its number matters, it slows the next one down."""
    return replace(detectors, polls=detectors.polls + 1)


def poll_wait_s(detectors: LoopCounters) -> int:
    """Return how many seconds the next polling decision must wait: none after other work, more with each in a row."""
    return 0 if detectors.polls == 0 else min(1 << min(detectors.polls - 1, 5), LONGEST_POLL_WAIT_S)


def after_step(detectors: LoopCounters, calls: tuple[StepCall, ...], tools: Tools, step: int) -> LoopCounters:
    """Count what came of the calls of *step*: one success clears the errors, external causes change nothing."""
    polling = all(tools[call.call.tool].polling for call in calls)
    if any(not call.error_signature for call in calls):
        cleared = _cleared(detectors, step)
        return cleared if polling else _after_success(cleared, calls, tools)
    if any(call.external for call in calls):
        return detectors if polling else replace(detectors, call_count=max(0, detectors.call_count - 1))
    counted = _after_error(detectors, errors_of(calls), step, denied_calls(calls))
    return counted if polling else _seen(counted, step_signature(calls))


def _cleared(detectors: LoopCounters, step: int) -> LoopCounters:
    """Forget the errors, but for what a judgement of this step may still need."""
    before = (
        detectors.error_before if step == detectors.error_step else (detectors.error_signature, detectors.error_count)
    )
    return replace(
        detectors,
        error_signature="",
        error_count=0,
        error_told=0,
        error_step=step,
        error_before=before,
        denied_calls=(),
        denied_again=False,
    )


def after_validation(detectors: LoopCounters, event: ev.StepResultValidated) -> LoopCounters:
    """Count a step that a model judges to have failed; what its outcome showed was counted with the outcome."""
    counted = event.step == detectors.error_step and detectors.error_count > 0
    if event.success or event.source != "model" or counted:
        return detectors
    return _after_error(detectors, event.error_signature, event.step)


def _after_success(detectors: LoopCounters, calls: tuple[StepCall, ...], tools: Tools) -> LoopCounters:
    worked = replace(detectors, handoffs=(), handoff_count=0, handoff_told=0) if detectors.handoffs else detectors
    return _seen(_after_results(worked, calls, tools), step_signature(calls))


def _after_results(detectors: LoopCounters, calls: tuple[StepCall, ...], tools: Tools) -> LoopCounters:
    """Count equal results of tools that only read, whatever they were asked; what changes something starts anew."""
    if any(call.error_signature or not _reads(call, tools) for call in calls):
        return replace(detectors, result_signature="", result_count=0)
    signature = "|".join(sorted(f"{call.call.tool}:{result_signature(call)}" for call in calls))
    count = detectors.result_count + 1 if signature == detectors.result_signature else 1
    return replace(detectors, result_signature=signature, result_count=count)


def _reads(call: StepCall, tools: Tools) -> bool:
    """Whether the call only looked at something, and got enough to recognize it again."""
    spec = tools[call.call.tool]
    if spec.effect_class is not EffectClass.PURE or spec.polling:
        return False
    return bool(call.output and call.output.blob_digest) or weight(call.result, TELLING) >= TELLING


def after_refusal(detectors: LoopCounters, code: str, feedback: str, step: int) -> LoopCounters:
    """Count a decision refused in *step* like an error; a refused loop is counted by its own detector."""
    if code == LOOP_DETECTED:
        return detectors
    signature = refusal_signature(code, feedback)
    return _seen(_after_error(detectors, signature, step), "e:" + digest_text(signature)[SHORT])


def _after_error(detectors: LoopCounters, signature: str, step: int, denied: tuple[str, ...] = ()) -> LoopCounters:
    """Count an error once for each step: where a step has several attempts, the last one's takes the others' place.

    *denied* are the calls of a step in which nothing but denials happened, remembered until something else does.
    """
    before = (detectors.error_signature, detectors.error_count)
    if step == detectors.error_step:
        before = detectors.error_before
    same = signature == before[0]
    known = detectors.denied_calls if denied else ()
    fresh = tuple(call for call in denied if call not in known)
    return replace(
        detectors,
        denied_calls=(*known, *fresh)[-DENIED_KEPT:],
        denied_again=len(fresh) < len(denied),
        error_signature=signature,
        error_count=before[1] + 1 if same else 1,
        error_told=detectors.error_told if same else 0,
        error_step=step,
        error_before=before,
    )


def after_handoff(detectors: LoopCounters, event: ev.AgentTransferred) -> LoopCounters:
    """Count a handoff that an agent wanted; work in between takes the count back."""
    if event.forced:
        return detectors
    signature = handoff_signature(event.source, event.target, event.context)
    handoffs = (*detectors.handoffs, signature)[-MAX_HANDOFFS:]
    return _seen(replace(detectors, handoffs=handoffs, handoff_count=detectors.handoff_count + 1), signature)


def _seen(detectors: LoopCounters, signature: str) -> LoopCounters:
    window = (*detectors.window, signature)[-WINDOW:]
    return replace(detectors, window=window, cycle=cycle_of(window))


def cycle_of(window: tuple[str, ...]) -> tuple[str, ...]:
    """Return the steps of the shortest cycle that *window* ends with; none where it does not end with one.

    Steps that are all the same are no cycle: their own detectors count them; nor are handoffs alone.
    """
    for length in CYCLES:
        needed = steps_of_cycle(length)
        if len(window) < needed or window[-1] != window[-1 - length]:
            continue  # nearly always
        last = window[-needed:]
        if last[length:] != last[:-length]:
            continue
        cycle = last[-length:]
        if len(set(cycle)) > 1 and not all(step.startswith("r:") for step in cycle):
            return cycle
    return ()


def after_loop(detectors: LoopCounters, detector: str, signature: str, action: str) -> LoopCounters:
    """Remember that something was done about a loop: it must go on before anything more is done.

    `errors` and `handoffs` keep their count, and beside it (`*_told`) the count at which something was done: each
    further one is acted upon. `cycle` and `results` count anew: another round, or as many equal results again, are
    acted upon. `calls` needs neither: calls that would be a loop are not run, and each time they are asked for is acted
    upon.
    """
    nudged = (*detectors.nudged, f"{detector}:{signature}")[-NUDGED_KEPT:]
    changed = replace(detectors, nudged=nudged, replan=action == "replan")
    match detector:
        case "errors":
            return replace(changed, error_told=changed.error_count)
        case "cycle":
            again = steps_of_cycle(len(changed.cycle)) - len(changed.cycle) if changed.cycle else 0
            return replace(changed, window=changed.window[-again:] if again else (), cycle=())
        case "results":
            return replace(changed, result_count=0)
        case "handoffs":
            return replace(changed, handoff_told=changed.handoff_count)
        case _:
            return changed


NUDGED_KEPT = 8
"""Loops whose escalation is remembered."""


def would_loop(detectors: LoopCounters, calls: tuple[ToolCall, ...]) -> bool:
    """Whether running *calls* now would be the third equal one in a row."""
    return after_calls(detectors, calls).call_count >= LOOP_THRESHOLD
