"""What the acts of a run show: similar actions, a cycle, progress that stands still.

A pure function of the trace. Every rule needs two things, that acts are alike and that they brought nothing new:
alike alone is work on a list, and nothing new alone is looking around.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from towpath_contracts.runs.idle_runs import DETAIL_CHARS, KEY_CHARS, TOOLS_TOLD, FindingName, IdleRun
from towpath_contracts.runs.raw_events import RawEntry
from towpath_watchdog.core.similarity import SIMILAR, is_same_result, jaccard, rephrased, tokens
from towpath_watchdog.core.trace import ObservedStep, WatchedRun

SIMILAR_ACTIONS = 5
"""Acts in a row that are alike: two more than equal ones need, for which the run machine has its own detector."""

STALLED_STEPS = 8
"""Steps without any sign of progress; most runs have 10 to 24 in all."""

TURNS = 3
"""Of a cycle, before it is one."""

CYCLE_LENGTHS = range(2, 7)
"""Of acts in a cycle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was found. `since` is the first event it rests on, `key` what it is about, `score` 0 to 1."""

    name: FindingName
    key: str
    since: int
    steps: int
    score: float
    detail: str
    tools: tuple[str, ...] = ()


def findings(trace: WatchedRun) -> tuple[Finding, ...]:
    """Return what *trace* shows now, the most telling first; nothing for a run that waits for a person or has ended."""
    if trace.ended or trace.gates:
        return ()
    actions = trace.finished_actions()
    found = (_similar(actions), _cycle(actions), _stalled(trace, actions))
    return tuple(one for one in found if one is not None)


@lru_cache(maxsize=8_192)
def _tokens(tool: str, args: tuple[tuple[str, str], ...]) -> frozenset[str]:
    return tokens(tool, dict(args))


def action_tokens(action: ObservedStep) -> frozenset[str]:
    """Return the tokens of all calls of *action*."""
    return frozenset().union(*(_tokens(call.tool, tuple(call.args.items())) for call in action.calls.values()))


def similarity_of(left: ObservedStep, right: ObservedStep) -> float | None:
    """Return how similar two acts are where they are (Jaccard over 0.7); None where they are not.

    Two successful calls that name different things, ids or paths, are work on a list and not alike.
    """
    if left.tools != right.tools or len(left.calls) != len(right.calls):
        return None
    score = jaccard(action_tokens(left), action_tokens(right))
    if score <= SIMILAR:
        return None
    if left.failed and right.failed:
        return score
    pairs = zip((left.calls[i] for i in sorted(left.calls)), (right.calls[i] for i in sorted(right.calls)), strict=True)
    return score if all(rephrased(one.args, other.args) for one, other in pairs) else None


def has_new_result(action: ObservedStep, before: list[ObservedStep]) -> bool:
    """Return whether *action* returned something that none before it did, or did something else with success."""
    text = action.result, action.asked
    if not any(is_same_result(text, (earlier.result, earlier.asked)) for earlier in before):
        return True
    return not action.failed and not any(similarity_of(action, earlier) is not None for earlier in before)


def _similar(actions: list[ObservedStep]) -> Finding | None:
    last = actions[-SIMILAR_ACTIONS:]
    scores = _similarities(last, 1) if len(last) == SIMILAR_ACTIONS else None
    if scores is None or _new_results_in(actions, SIMILAR_ACTIONS - 1) * 2 > SIMILAR_ACTIONS - 1:
        return None
    score = sum(scores) / len(scores)
    return _found("similar_actions", last, score, f"{SIMILAR_ACTIONS} similar actions in a row ({score:.2f})")


def _similarities(actions: list[ObservedStep], apart: int) -> list[float] | None:
    """Return how similar each act is to the one so many acts before it; None where one of them is not, newest first."""
    scores = []
    for place in range(len(actions) - 1, apart - 1, -1):
        score = similarity_of(actions[place - apart], actions[place])
        if score is None:
            return None
        scores.append(score)
    return scores


def _new_results_in(actions: list[ObservedStep], count: int) -> int:
    """Return how many of the last *count* acts brought news, each beside all that came before it."""
    return sum(has_new_result(actions[place], actions[:place]) for place in range(len(actions) - count, len(actions)))


def _nothing_new_in(actions: list[ObservedStep], count: int) -> bool:
    """Return whether none of the last *count* acts had a new result; the newest mostly decides it."""
    return not any(
        has_new_result(actions[place], actions[:place])
        for place in range(len(actions) - 1, len(actions) - count - 1, -1)
    )


def _cycle(actions: list[ObservedStep]) -> Finding | None:
    """Find the shortest cycle at the end whose later turns brought nothing new."""
    for length in CYCLE_LENGTHS:
        last = actions[-length * TURNS :]
        if len(last) < length * TURNS:
            return None
        scores = _similarities(last, length)
        if scores and not _uniform(last[:length]) and _nothing_new_in(actions, length * (TURNS - 1)):
            score = sum(scores) / len(scores)
            return _found("cycle", last, score, f"{length} actions came {TURNS} times in the same order")
    return None


def _uniform(actions: list[ObservedStep]) -> bool:
    """Whether a turn is one action again and again, which is no cycle."""
    return all(similarity_of(left, right) is not None for left, right in pairwise(actions))


def _stalled(trace: WatchedRun, actions: list[ObservedStep]) -> Finding | None:
    """Where progress is measured its score decides, elsewhere what the results say."""
    if trace.score >= 0:
        if trace.scores < STALLED_STEPS:
            return None
        last = actions[-STALLED_STEPS:]
        detail = f"progress stands at {trace.score:.2f} since {trace.scores} steps"
        return _found("stalled_progress", last, trace.score, detail, since=trace.score_since, steps=trace.scores)
    last = actions[-STALLED_STEPS:]
    if len(last) < STALLED_STEPS or not _nothing_new_in(actions, STALLED_STEPS - 1):
        return None
    return _found("stalled_progress", last, 0.0, f"the results of {STALLED_STEPS} steps had nothing new")


def _found(
    name: FindingName, actions: list[ObservedStep], score: float, detail: str, *, since: int = 0, steps: int = 0
) -> Finding:
    tools = tuple(sorted({tool for action in actions for tool in action.tools}))
    return Finding(
        name=name,
        key=f"{name}:{','.join(tools)}"[:KEY_CHARS] if name != "stalled_progress" else name,
        since=since or actions[0].seq,
        steps=steps or len(actions),
        score=round(min(1.0, max(0.0, score)), 3),
        detail=f"{detail}: {', '.join(tools)}"[:DETAIL_CHARS],
        tools=tools[:TOOLS_TOLD],
    )


UNKNOWN_LEASE_MS = 600_000
"""Of a run whose first event can't be had: longer than most models and tools are waited for."""


def lease_of(entries: Iterable[RawEntry]) -> int:
    """Return the step timeout, in ms, that the first event of a log says."""
    for entry in entries:
        timeout = entry.event.get("step_timeout_ms")
        if isinstance(timeout, int) and timeout > 0:
            return timeout
    return UNKNOWN_LEASE_MS


def lease_s(step_timeout_ms: int | None, margin_s: float) -> float:
    """Return how long nothing need happen in a running run: its decider's lease, and *margin_s* for what follows."""
    return (UNKNOWN_LEASE_MS if step_timeout_ms is None else step_timeout_ms) / 1000 + margin_s


def idle_key(run: IdleRun) -> str:
    """Return the key of what *run* may show."""
    return f"{_DESCRIPTIONS[run.idle][0]}:{run.idle}"


def idle_finding(run: IdleRun, lease: float) -> Finding | None:
    """Return what *run* shows; None for a silence that its *lease*, in seconds, allows."""
    if run.idle == "quiet" and run.for_s <= lease:
        return None
    name, text = _DESCRIPTIONS[run.idle]
    return Finding(
        name=name,
        key=idle_key(run),
        since=run.seq,
        steps=0,
        score=1.0,
        detail=f"{text} for {run.for_s:.0f} s; the run is {run.status}",
    )


_DESCRIPTIONS: dict[str, tuple[Literal["silent", "lost"], str]] = {
    "overdue": ("lost", "nobody has looked at it although its time has come"),
    "queued": ("lost", "it waits to be started"),
    "quiet": ("silent", "nothing has happened"),
}
