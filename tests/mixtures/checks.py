"""What must be true of a tree of runs that has ended, by its logs and by the witness file. Pure.

Nothing of the platform is imported, so no mistake is shared with it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tests.mixtures.mixture import ENDS, Mixture

Json = dict[str, Any]

ONCE = frozenset({"mix.pay", "mix.sign"})
"""Irreversible: no call of them happens twice, whatever dies."""

COUNTED = "mix."

OVER = frozenset(
    {"run_finished", "decision_requested", "instruction_issued", "tool_call_finished", "gate_opened", "child_started"}
)
"""What may not stand behind the end of a log. Late records of what was under way may."""

SILENT_S = 5.0
"""From a person's word to a run far above its gate, messages pass several processes, one of which may just be dead."""


class Mark(NamedTuple):
    """A line of the witness file: what really happened."""

    run: str
    call: str
    tool: str
    token: str


class Tree(NamedTuple):
    """A submitted run, the runs below it (itself first), their logs, and what is open of it."""

    root: Json
    runs: Sequence[Json]
    logs: Mapping[str, Sequence[Json]]
    gates: Sequence[Json]


def findings(mixture: Mixture, tree: Tree, marks: Iterable[Mark], *, is_fork: bool = False) -> list[str]:
    """Return what is wrong with the tree of a mixture, each in a sentence."""
    by_call: defaultdict[str, list[Mark]] = defaultdict(list)
    for mark in marks:
        if mark.run in tree.logs:
            by_call[mark.call].append(mark)
    wrong = [*_ends(mixture, tree), *_family(tree)]
    for run_id, log in tree.logs.items():
        wrong += _log(run_id, log)
        wrong += _effects(run_id, log, by_call)
    return [f"{mixture.title}{' (fork)' if is_fork else ''}: {one}" for one in wrong]


def _ends(mixture: Mixture, tree: Tree) -> list[str]:
    wrong = [f"run {run['run_id']} is still {run['status']}" for run in tree.runs if run["status"] not in ENDS]
    status = tree.root["status"]
    if status in ENDS and status not in mixture.ends:
        wrong.append(f"run {tree.root['run_id']} is {status}, {tree.root['reason']}: {str(tree.root['final'])[:300]}")
    wrong += [f"gate {gate['gate_id']} is open after the end" for gate in tree.gates]
    return wrong


def _family(tree: Tree) -> list[str]:
    wrong = []
    for run_id, log in tree.logs.items():
        born = Counter(_of(log, "child_started", "child_id"))
        ended = Counter(_of(log, "child_ended", "child_id"))
        wrong += [f"child {one} of {run_id} is born {n} times" for one, n in born.items() if n > 1]
        wrong += [f"child {one} of {run_id} has ended {n} times" for one, n in ended.items() if n > 1 or not born[one]]
        wrong += [f"child {one} of {run_id} has no run" for one in born if one not in tree.logs]
    parents = {run["run_id"]: run["parent_run_id"] for run in tree.runs}
    wrong += [
        f"run {run_id} has a parent that is not in its tree"
        for run_id, parent in parents.items()
        if parent not in parents and run_id != tree.root["run_id"]
    ]
    return wrong


def _log(run_id: str, log: Sequence[Json]) -> list[str]:
    wrong = []
    if [entry["seq"] for entry in log] != list(range(1, len(log) + 1)):
        wrong.append(f"the log of {run_id} has gaps or repetitions")
    ends = [entry for entry in log if entry["event"]["type"] == "run_finished"]
    after = [entry["event"]["type"] for entry in log if ends and entry["seq"] > ends[0]["seq"]]
    if len(ends) != 1 or OVER.intersection(after):
        wrong.append(f"the log of {run_id} has {len(ends)} ends, and after the first {after}")
    opened, closed = Counter(_of(log, "gate_opened", "gate_id")), Counter(_of(log, "gate_closed", "gate_id"))
    wrong += [f"gate {one} of {run_id} was closed {n} times" for one, n in closed.items() if n > 1 or not opened[one]]
    finished = Counter(_of(log, "tool_call_finished", "execution_id"))
    wrong += [f"call {one} of {run_id} has {n} outcomes" for one, n in finished.items() if n > 1]
    return wrong


def _effects(run_id: str, log: Sequence[Json], by_call: Mapping[str, Sequence[Mark]]) -> list[str]:
    finished = {
        entry["event"]["execution_id"]: entry["event"]
        for entry in log
        if entry["event"]["type"] == "tool_call_finished" and entry["event"]["tool"].startswith(COUNTED)
    }
    wrong = []
    for call, event in finished.items():
        happened = len(by_call.get(call, ()))
        if event["status"] == "succeeded" and not happened:
            wrong.append(f"call {call} of {event['tool']} succeeded, and nothing happened")
    tokens: defaultdict[str, set[str]] = defaultdict(set)
    asked = {call for entry in log for call in _calls_of(entry["event"])}
    for call, marks in by_call.items():
        if marks[0].run != run_id:
            continue
        if marks[0].tool in ONCE and len(marks) > 1:
            wrong.append(f"call {call} of {marks[0].tool} happened {len(marks)} times")
        if call not in asked:
            wrong.append(f"call {call} of {marks[0].tool} happened, and the log of {run_id} does not know it")
        tokens[marks[0].token].add(call)
    wrong += [
        f"{token} of {run_id} happened as {len(calls)} calls" for token, calls in tokens.items() if len(calls) > 1
    ]
    return wrong


def _calls_of(event: Json) -> list[str]:
    """Return the calls that an event names: that the run asks for, or that have an outcome."""
    found = [str(event["execution_id"])] if event.get("execution_id") else []
    instruction = event.get("instruction") or {}
    found += [str(call["execution_id"]) for call in instruction.get("calls", ()) if call.get("execution_id")]
    return found


def spending_findings(mixture: Mixture, trees: Sequence[Tree]) -> list[str]:
    """Return what is wrong with what the run of a mixture and its forks, which share its budget, spent together."""
    if mixture.budget is None:
        return []
    made = sum(
        entry["event"]["type"] == "tool_call_finished"
        and entry["event"]["tool"].startswith(COUNTED)
        and entry["event"]["status"] == "succeeded"
        for tree in trees
        for log in tree.logs.values()
        for entry in log
    )
    return [f"{mixture.title}: {made} calls succeeded on a budget of {mixture.budget}"] if made > mixture.budget else []


def _of(log: Sequence[Json], kind: str, name: str) -> list[str]:
    return [str(entry["event"][name]) for entry in log if entry["event"]["type"] == kind]


class WaitWatch:
    """Notices a run that waits and does not say for what."""

    def __init__(self) -> None:
        self._silent: dict[str, tuple[int, float]] = {}

    def look(self, run: Json, now: float) -> str | None:
        """Look at a run at *now* (seconds); a finding where it was silent for SILENT_S in which nothing happened."""
        seq, since = self._silent.get(run["run_id"], (-1, now))
        if run["status"] != "waiting" or run["waits"] or seq != run["seq"]:
            since = now
        self._silent[run["run_id"]] = run["seq"], since
        if now - since < SILENT_S:
            return None
        return f"run {run['run_id']} waits at event {seq} and does not say for what"
