"""Compares a run that faults hit with an undisturbed run of the same script.

Left out are times, attempt numbers, random ids, the names of workers and callers, and events of timers and resends.
Everything else has to be equal and in the same order. Calls of one step may end in any order, so they are compared by
call index.
"""

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from towpath_contracts.events.log import COMPARISON_IGNORES
from towpath_embedded.chaos.stored_runs import Row, StoredRunRows

CallPosition = tuple[int, int]
"""Step and call index: what names a call in every run of the same script."""

_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")

_PASSING: Final = frozenset(
    {
        "attempt",
        "worker",
        "duration_ms",
        "resend_at",
        "expires_at",
        "deadline",
        "until",
        "live",
        "voided",
        "effects",
        "probe",
    }
) | {"caller", "prompt_digest", "timeout_ms", "child_seq"}
"""Fields for when, by whom and at which attempt, at any depth. What was voided or happened is in the ledger, which
is compared; a prompt shows ids, so its digest is a run's own, and what it was made from is compared. A child has what
time its parent had left, and reports how long its own log is, with its resends. Some runs are submitted over HTTP and
some over NATS, where the person of a local platform has another name."""

_ENDS: Final = frozenset({"tool_call_finished", "tool_call_denied"})

_DOUBTED: Final = frozenset({"status", "result", "result_digest", "result_bytes", "failure", "settled_by"})
"""Fields of a call's end that a person's answer decides, where its outcome was unknown."""

_SHOWN: Final = frozenset({"input_preview", "last_output"})
"""Fields that show such an answer to the model afterwards."""

_LEDGER: Final = ("step", "call_index", "tool", "status", "effect_class", "args_digest", "rule", "settled_by")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparableRun:
    """What is compared of one run: how it ended, its log and its ledger, as texts."""

    end: tuple[str, ...]
    log: tuple[str, ...]
    ledger: tuple[str, ...]


def describe_difference(record: StoredRunRows, reference: str, run_id: str, doubted: Collection[str] = ()) -> str:
    """Describe how *run_id* differs from the run *reference*; an empty string where it does not.

    *doubted* are the execution ids of calls that were unknown at a time: what a person answered about them is left out.
    """
    places = {_place(row) for row in record.calls if row["run_id"] == run_id and row["execution_id"] in doubted}
    wanted, found = comparable_run(record, reference, places), comparable_run(record, run_id, places)
    for name in ("end", "log", "ledger"):
        pair: tuple[tuple[str, ...], tuple[str, ...]] = getattr(wanted, name), getattr(found, name)
        if pair[0] != pair[1]:
            return f"{run_id}: the {name} differs from that of {reference}: {_first_difference(*pair)}"
    return ""


def comparable_run(record: StoredRunRows, run_id: str, doubted: Collection[CallPosition] = ()) -> ComparableRun:
    """Return what has to be equal of *run_id*, without what a person decided about the calls at *doubted*."""
    events = [row for row in record.events if row["run_id"] == run_id and row["type"] not in COMPARISON_IGNORES]
    doubts = {row["gate_id"] for row in record.gates if row["gate_type"] == "unknown_effect"}
    kept = [_plain(row, doubted) for row in _in_call_order(events) if row["event"].get("gate_id") not in doubts]
    names = _Names()
    return ComparableRun(
        end=tuple(f"{r['status']} {r['reason']} at step {r['step']}" for r in record.runs if r["run_id"] == run_id),
        log=tuple(names.text(event) for event in _without_repeats(kept)),
        ledger=tuple(sorted(_entry(row, doubted) for row in record.calls if row["run_id"] == run_id)),
    )


class _Names:
    """Gives ids a name by the order in which they appear, so that two runs have the same names."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def text(self, event: Any) -> str:
        return _UUID.sub(self._name, _TIME.sub("<time>", _json(event)))

    def _name(self, found: re.Match[str]) -> str:
        return self._known.setdefault(found.group(), f"<id {len(self._known) + 1}>")


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _first_difference(wanted: Sequence[str], found: Sequence[str]) -> str:
    shared = min(len(wanted), len(found))
    place = next((n for n in range(shared) if wanted[n] != found[n]), shared)
    return f"at {place} {_at(wanted, place)} became {_at(found, place)}"


def _at(texts: Sequence[str], place: int) -> str:
    return texts[place][:400] if place < len(texts) else "nothing"


def _place(row: Row) -> CallPosition:
    return row["step"], row["call_index"]


def _in_call_order(events: Sequence[Row]) -> list[Row]:
    """The ends of one step's calls keep the places that they have together, and take them in the calls' own order."""
    ordered = list(events)
    for step in {row["event"]["step"] for row in events if row["type"] in _ENDS}:
        spots = [n for n, row in enumerate(events) if row["type"] in _ENDS and row["event"]["step"] == step]
        ends = sorted((events[n] for n in spots), key=lambda row: _place(row["event"]))
        for spot, row in zip(spots, ends, strict=True):
            ordered[spot] = row
    return ordered


def _plain(row: Row, doubted: Collection[CallPosition]) -> Row:
    event: Row = _leave_out(_PASSING, row["event"])
    if row["type"] in _ENDS:
        event = _undecided(event, doubted)
    shown: Row = _leave_out(_SHOWN, event) if doubted else event
    return shown


def _leave_out(names: Collection[str], value: Any) -> Any:
    """Return *value* without the fields called *names*, at any depth."""
    if isinstance(value, dict):
        return {key: _leave_out(names, inner) for key, inner in value.items() if key not in names}
    return [_leave_out(names, inner) for inner in value] if isinstance(value, list) else value


def _undecided(row: Row, doubted: Collection[CallPosition]) -> Row:
    return {key: value for key, value in row.items() if key not in _DOUBTED} if _place(row) in doubted else row


def _without_repeats(events: Sequence[Row]) -> list[Row]:
    """A fence is asked for until nothing runs under it; every answer after the first is the same."""
    kept: list[Row] = []
    for event in events:
        if event["type"] != "fence_stored" or event not in kept:
            kept.append(event)
    return kept


def _entry(row: Row, doubted: Collection[CallPosition]) -> str:
    return _json(_undecided({name: row[name] for name in _LEDGER}, doubted))
