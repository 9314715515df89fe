"""What a person has to know to decide at a gate: the question, the arguments and who vouches for each, the verdicts.

Values that nobody vouches for come first. What is said of a gate's type is said here, for every type that there is.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from towpath_console.text import MAX_SHOWN_CHARS, one_line
from towpath_contracts.runs.run_control import NO_QUESTIONS
from towpath_contracts.tools.call_summaries import summary_of_gate

Gate = Mapping[str, Any]

SHORT_ROWS = 8
"""Arguments on a card in a list; the page of the gate has all."""

LIST_CHARS = 300
"""Of a value on a card in a list; the page of the gate has all of it."""

CELL_CHARS = 80
"""Of a value in the table of a batch."""

MOST_PARTS = 4
"""Parts of one value that are named together."""

_DOUBTFUL = ("untrusted", "unknown")
_FIRST = re.compile(r"[.\[ ]")


class ArgumentRow(NamedTuple):
    """One argument: its value as JSON, and the worst of what is known of where it, or a part of it, came from."""

    name: str
    value: Any
    text: str
    is_nested: bool
    origin: str
    is_sink: bool
    is_doubtful: bool
    told: tuple[str, ...]
    step: int | None

    def is_whole(self, most: int) -> bool:
        """Return whether one line of *most* characters is exactly the value, with every space."""
        return one_line(self.text, most) == self.text


class Choice(NamedTuple):
    """One word that can be said at a gate; `what` is what follows from it."""

    verdict: str
    label: str
    icon: str
    tone: str
    key: str
    what: str
    needs_reason: bool = False


class GateCard(NamedTuple):
    """A gate as it is shown."""

    kind: str
    title: str
    question: str
    summary: str
    warnings: tuple[tuple[str, str], ...]
    arguments: tuple[ArgumentRow, ...]
    hidden_arguments: int
    facts: tuple[tuple[str, Any], ...]
    choices: tuple[Choice, ...]
    can_edit: bool
    reason_hint: str
    unanswered: str
    votes: str
    is_traced: bool


_APPROVE = Choice("approve", "Approve", "check", "good", "a", "The call happens exactly as it is shown.")
_DENY = Choice("deny", "Deny", "x", "bad", "d", "The call does not happen; the agent reads the reason.", True)
_GO_ON = Choice("approve", "Go on", "play", "good", "a", "The run goes on; a reason is told to the model.")
_OTHERWISE = Choice(
    "deny", "Go on differently", "corner-up-right", "", "d", "The run goes on; the model is told another way.", True
)
_STOP = Choice("stop", "End the run", "octagon-x", "bad", "s", "The run ends as escalated.")
_HAPPENED = Choice("happened", "It happened", "check", "", "y", "The run goes on as after a success.")
_DID_NOT = Choice("did_not_happen", "It did not happen", "x", "", "n", "The run goes on as after a failure.")
_RETRY = Choice("retry", "Run it again", "rotate-ccw", "bad", "r", "The call is started once more.")

_QUESTIONS = {
    "loop_detected": ("The run goes round in circles", "Shall it go on?"),
    "low_confidence": ("The model is not sure of its way", "Shall it go on?"),
    "permission": ("The run lacks a permission", "How shall it go on?"),
    "budget": ("A budget is nearly spent", "Shall the run go on?"),
    "timeout": ("The time of the run is used up", "Shall it go on?"),
    "manual": ("The run asks a person", "Shall it go on?"),
    "run_paused": ("The run is paused", "Only a resume lets it go on."),
    "paused": ("A stop switch holds the call", "Only the switch opens it."),
}

_FACTS = {
    "why": "Why",
    "goal": "Goal",
    "confidence": "Confidence",
    "progress_score": "Progress",
    "trigger": "Asked because of",
    "detector": "Found by",
    "finding": "Found",
    "count": "How often",
    "signature": "What repeats",
    "scope": "Budget of",
    "budget": "Whose",
    "unit": "Counted in",
    "spent": "Spent",
    "limit": "Limit",
    "timeout_ms": "Limit in ms",
    "asked": "Asked",
    "denial": "Denied",
    "by": "By",
    "step": "Step",
    "worker": "Worker",
    "claimed_at": "Started",
    "lease_until": "Lease until",
    "starts": "Starts",
    "attempt": "Attempt",
    "probe": "The tool's own check says",
    "switch": "Switch",
}
"""What a gate's detail says beside the call, in the order in which it is shown."""


def gate_card(gate: Gate, *, full: bool = False) -> GateCard:
    """Return *gate* as it is shown; all of it where *full*."""
    kind, detail = _kind(gate), gate["detail"]
    rows = argument_rows(gate)
    shown = rows if full else rows[:SHORT_ROWS]
    name = str(detail.get("tool") or "")
    title, question = _QUESTIONS.get(gate["gate_type"], (gate["gate_type"], "Shall it go on?"))
    if kind == "call":
        title, question = name, f"May {detail.get('agent') or 'the agent'} make this call?"
    elif kind == "doubt":
        title, question = f"Did {name} happen?", "Look at the target itself; nobody here knows."
    choices = _choices(gate, kind)
    return GateCard(
        kind=kind,
        title=title,
        question=question,
        summary=summary_of_gate(detail),
        warnings=tuple(_warnings(gate, kind, rows)),
        arguments=shown,
        hidden_arguments=len(rows) - len(shown),
        facts=() if kind == "call" else tuple(_facts(gate)),
        choices=choices,
        can_edit=kind == "call" and gate["gate_type"] == "approval" and gate["status"] == "pending",
        reason_hint=_reason_hint(gate, kind),
        unanswered=_unanswered(gate, kind),
        votes=_votes(gate),
        is_traced=any(row.origin for row in rows),
    )


def argument_rows(gate: Gate) -> tuple[ArgumentRow, ...]:
    """Return the arguments of a call, those first that nobody vouches for, of these those that say where it goes."""
    args = gate["detail"].get("args")
    if not isinstance(args, dict):
        return ()
    origins: dict[str, list[Mapping[str, Any]]] = {}
    for one in gate["detail"].get("origins") or ():
        path = str(one.get("path", ""))
        name = path if path in args else _FIRST.split(path)[0]
        origins.setdefault(name, []).append(one)
    rows = [_row(name, value, origins.get(name, ())) for name, value in args.items()]
    return tuple(sorted(rows, key=lambda row: (not row.is_doubtful, not row.is_sink if row.is_doubtful else False)))


def written(value: Any) -> str:
    """Return a value as it is, as JSON: 8812 is not "8812"."""
    return json.dumps(value, ensure_ascii=False)


def _row(name: str, value: Any, origins: Any) -> ArgumentRow:
    ranked = sorted(origins, key=lambda one: _rank(str(one.get("from", ""))))
    worst = ranked[0] if ranked else {}
    label = str(worst.get("from", ""))
    doubtful = [one for one in ranked if str(one.get("from")) in _DOUBTFUL or one.get("leak")]
    return ArgumentRow(
        name=name,
        value=value,
        text=written(value),
        is_nested=isinstance(value, dict | list) and bool(value),
        origin=label,
        is_sink=any(one.get("sink") for one in ranked),
        is_doubtful=label in _DOUBTFUL or any(one.get("leak") for one in ranked),
        told=_told(doubtful or ranked[:1], name),
        step=worst.get("step") if isinstance(worst.get("step"), int) else None,
    )


def _rank(label: str) -> int:
    order = ("untrusted", "unknown", "record", "task", "fixed")
    return order.index(label) if label in order else len(order)


def _told(origins: Sequence[Mapping[str, Any]], name: str) -> tuple[str, ...]:
    """Say where a value, or parts of it, came from; parts of which the same is known together."""
    parts: dict[str, list[str]] = {}
    for one in origins:
        path = str(one.get("path", ""))
        parts.setdefault(_source(one), []).append("" if path == name else path)
    return tuple(_with_parts(words, [path for path in paths if path]) for words, paths in parts.items())


def _with_parts(words: str, paths: Sequence[str]) -> str:
    if not paths:
        return words
    more = f" and {len(paths) - MOST_PARTS} more" if len(paths) > MOST_PARTS else ""
    return f"{words}: {', '.join(paths[:MOST_PARTS])}{more}"


def _source(origin: Mapping[str, Any]) -> str:
    tool = origin.get("tool")
    source = f"{tool}, step {origin.get('step', '?')}" if tool else ""
    words = {
        "task": "said by the task",
        "fixed": "listed by the tool itself",
        "record": source,
        "unknown": "nobody said it; the model wrote it",
        "untrusted": f"read with {source}" if source else "only quoted, or answered by another agent",
    }.get(str(origin.get("from", "")), source)
    piece = f" (“{origin['piece']}”)" if origin.get("piece") else ""
    leak = "; may not know all that goes there" if origin.get("leak") else ""
    return f"{words}{piece}{leak}"


def _kind(gate: Gate) -> str:
    """Return what is asked: about a call, what became of one, about the run, or nothing that a person can say."""
    if gate["gate_type"] in NO_QUESTIONS:
        return "held"
    if gate["gate_type"] == "unknown_effect":
        return "doubt"
    return "call" if gate.get("approval_id") or gate["gate_type"] == "approval" else "run"


def _choices(gate: Gate, kind: str) -> tuple[Choice, ...]:
    if gate["status"] != "pending" or kind == "held":
        return ()
    if kind == "call":
        return (_APPROVE, _DENY)
    if kind == "doubt":
        return (_HAPPENED, _DID_NOT, _RETRY)
    return (_GO_ON, _STOP) if gate["gate_type"] == "manual" else (_GO_ON, _OTHERWISE, _STOP)


def _warnings(gate: Gate, kind: str, rows: Sequence[ArgumentRow]) -> Iterator[tuple[str, str]]:
    """Yield what is not as usual, with its tone; the values that nobody vouches for say so themselves."""
    detail = gate["detail"]
    long = [row.name for row in rows if len(row.text) > MAX_SHOWN_CHARS]
    if long:
        yield "bad", f"Not all of {', '.join(long)} is shown here. It is in: towpath gates show {gate['gate_id']}"
    if any(one.get("leak") for one in detail.get("origins") or ()):
        yield "bad", "It would go to somebody who may not know all of it."
    if detail.get("edited_by"):
        yield "warn", f"{detail['edited_by']} changed the arguments. What stands here is the changed call."
    elif detail.get("changes"):
        yield "warn", "The call or its rules changed since it was first asked about."
    if detail.get("role"):
        yield "warn", f"Escalated: the role {detail['role']} decides, since nobody did in time."
    if kind == "call" and gate["gate_type"] == "manual":
        yield "warn", "It was changed three times: approve or deny it as it is, no more edits."
    if detail.get("retry_warning"):
        yield "warn", str(detail["retry_warning"])


def dangers_of(tool: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return what a tool declares of itself that whoever decides should know."""
    words = {
        "destroy": "It can destroy things.",
        "spend": "It can spend money.",
        "credentials": "It can touch credentials.",
    }
    declared = tool or {}
    hazards = [words.get(str(one), str(one)) for one in declared.get("hazards") or ()]
    return (
        *(["What this tool does can't be taken back."] if declared.get("effect_class") == "irreversible" else []),
        *hazards,
    )


def _facts(gate: Gate) -> Iterator[tuple[str, Any]]:
    """Yield what a gate says beside its reason and its call."""
    for key, name in _FACTS.items():
        value = gate["detail"].get(key)
        if value not in (None, "", [], {}) and not (isinstance(value, str) and value in gate["reason"]):
            yield name, value


def _reason_hint(gate: Gate, kind: str) -> str:
    if kind == "doubt":
        return "How you know; it stands in the audit"
    if kind == "run":
        needed = "" if gate["gate_type"] == "manual" else "; needed for another way"
        return f"Told to the model{needed}"
    return "Needed to deny: the agent reads it"


def _unanswered(gate: Gate, kind: str) -> str:
    """Say what happens where nobody decides in time."""
    if kind == "held":
        return "the call fails" if gate["gate_type"] == "paused" else "the run ends as escalated"
    if kind == "doubt":
        return "the agent is told that nobody knows"
    if kind == "run":
        return "the run ends as escalated"
    return "the policy admins are asked" if gate["detail"].get("on_expiry") == "escalate" else "it is denied"


def _votes(gate: Gate) -> str:
    """Say how many people have said yes, where more than one must."""
    quorum = gate.get("quorum", 1)
    yes = len({vote["actor"] for vote in gate.get("votes") or () if vote["verdict"] in ("approved", "edited")})
    return f"{yes} of {quorum} people have approved" if quorum > 1 else ""
