"""Did each call go the way that calls go? Which state it was in before each entry that moves it, as the log has it.

Whoever owns the database can open a call again that has ended, or start one that waits, and put its row right later.
What was done meanwhile stays in the log and can't follow from what stands before it: a start of a call that had
succeeded, say, or a second one of a call that is made once, and with it a second effect; that nobody began a call
whose start was granted; or that one succeeded whose start was granted to nobody, as its row seemed to be of another
effect class then. The ids of a call's entries tell their order, also within a seal.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from towpath_audit.entries import AuditLogEntry
from towpath_audit.report import AuditFault
from towpath_audit.sealed_calls import STATUS_AFTER, CallKey, SealedCalls, call_key

ENDED = frozenset({"succeeded", "failed", "void", "denied"})
STOPPED = ENDED | {"awaiting_approval", "unknown"}
UNDER_WAY = frozenset({"permitted", "started"})

NEVER_AFTER = {
    ("decision", "allow"): ENDED | {"started", "unknown"},
    ("decision", "require_approval"): ENDED | {"started", "unknown"},
    ("approval.consumed", "allow"): ENDED | UNDER_WAY | {"requested", "unknown"},
    ("claim", "granted"): STOPPED | {"requested"},
    ("dispatch", "again"): STOPPED,
    ("dispatch", "repeated"): STOPPED | {"requested"},
    ("outcome", "succeeded"): frozenset({"awaiting_approval", "denied"}),
    ("outcome", "failed"): frozenset({"awaiting_approval", "denied"}),
    ("settled", "happened"): ENDED | UNDER_WAY | {"awaiting_approval", "requested"},
    ("settled", "retry"): ENDED | UNDER_WAY | {"awaiting_approval", "requested"},
}
"""In which states no service moves a call so, by phase and verdict. An outcome that the run itself reports counts
whatever had ended its call before."""

GRANTED = ("claim", "granted")
DONE = ("outcome", "succeeded")

ONCE_STARTED = frozenset({GRANTED, ("dispatch", "again"), ("dispatch", "repeated"), ("held", "waits")})
"""What no service makes of an irreversible call that has started: it ends, or a person settles it."""


class _Step(NamedTuple):
    """An entry that moves a call, and where it stands."""

    entry_id: int
    kind: tuple[str, str]
    leaf: int
    line: int


@dataclass
class SealedStates:
    """Receives the entries of calls; `finish` returns those that can't follow from the ones before them.

    Of a call that began before the bundle nothing is known until an entry here says which state it is in. *partial*:
    the log began before the bundle, and so may have starts that are not here.
    """

    partial: bool = False
    steps: dict[CallKey, list[_Step]] = field(default_factory=dict)

    def on_entry(self, leaf: int, line: int, entry: AuditLogEntry) -> None:
        """Add an entry."""
        key, kind = call_key(entry), (entry.phase, entry.verdict)
        if key is not None and kind in STATUS_AFTER:
            self.steps.setdefault(key, []).append(_Step(entry.entry_id, kind, leaf, line))

    def finish(self, calls: SealedCalls) -> Iterator[AuditFault]:
        """Return the first entry of each call that can't follow from those before it; *calls* has had the same."""
        made_once, never_began = calls.made_once(), calls.never_began
        for key, steps in self.steps.items():
            state, begun = "", False
            for entry_id, kind, leaf, line in sorted(steps):
                again = state == "started" and kind in ONCE_STARTED and key in made_once
                unasked = kind == DONE and not begun and key in made_once and not self.partial
                if again or unasked or (begun and entry_id in never_began) or state in NEVER_AFTER.get(kind, ()):
                    before = "begun" if begun and entry_id in never_began else state
                    what = f"{' '.join(kind)} of call {key[1]}, which was {before} by the entries before it"
                    what += " and whose start was granted to nobody" if unasked else ""
                    place = {"leaf": leaf, "line": line, "entry_id": entry_id}
                    yield AuditFault(code="call_state_changed", message=f"{what}: its row was changed", **place)
                    break
                state, begun = STATUS_AFTER[kind], begun or kind == GRANTED
