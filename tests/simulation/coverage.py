"""What happened at least once: a simulation that never loses a message proves nothing about losing messages."""

import hashlib
from collections import Counter

MUST_HAPPEN = frozenset(
    {
        *("killed", "killed_at_point", "frozen", "postgres_stopped", "postgres_away", "committed_but_told_nothing"),
        *("row_locked", "broker_restarted", "broker_wiped", "broker_restored", "message_lost", "message_delayed"),
        *("message_repeated", "acknowledgement_lost", "stored_but_told_nothing", "redelivered", "deduplicated"),
        *("id_forgotten", "seq_conflict", "state_reloaded", "ledger_redone", "effect_resent", "outcome_resent"),
        *("claim_refused_claimed", "claim_refused_outdated", "fence_refused", "call_void", "call_unknown", "retried"),
        *("happened", "did_not_happen", "approved", "denied", "evidence", "approval_required", "worker_lost"),
        *("cancelled", "completed", "late_start_refused", "repeated_submit", "stale_worker", "gate_unknown_effect"),
    }
)
"""Every kind of fault, and every guard that exists because of one."""


class Coverage:
    """Counts what happened, and keeps the trace."""

    traces = True

    def __init__(self, *, keep: bool = False) -> None:
        self.counts: Counter[str] = Counter()
        self.lines: list[str] | None = [] if keep else None
        self._digest = hashlib.sha256()

    def note(self, what: str) -> None:
        """Count something."""
        self.counts[what] += 1

    def trace(self, line: str) -> None:
        """Add a line to the trace."""
        self._digest.update(line.encode())
        self._digest.update(b"\n")
        if self.lines is not None:
            self.lines.append(line)

    @property
    def fingerprint(self) -> str:
        """The hash of the whole trace."""
        return self._digest.hexdigest()
