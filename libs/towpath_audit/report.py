"""What a verification found: faults with their places, notes on what can't be seen, and figures."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFault:
    """One thing that does not fit.

    The place is a line of the bundle, a leaf of the log, or a range of leaves (`leaf` to `last_leaf`) where only a
    checkpoint behind them tells.
    """

    code: str
    message: str
    line: int | None = None
    leaf: int | None = None
    last_leaf: int | None = None
    entry_id: int | None = None

    @property
    def place(self) -> str:
        """The place in words."""
        words = []
        if self.leaf is not None and self.last_leaf is not None and self.last_leaf > self.leaf:
            words.append(f"leaves {self.leaf} to {self.last_leaf}")
        elif self.leaf is not None:
            words.append(f"leaf {self.leaf}")
        if self.entry_id is not None:
            words.append(f"entry {self.entry_id}")
        if self.line is not None:
            words.append(f"line {self.line}")
        return ", ".join(words) or "the bundle"

    def as_json(self) -> dict[str, Any]:
        """Return the fault for machines."""
        return {
            "code": self.code,
            "message": self.message,
            "place": self.place,
            "line": self.line,
            "leaf": self.leaf,
            "last_leaf": self.last_leaf,
            "entry_id": self.entry_id,
        }


@dataclass(slots=True)
class AuditReport:
    """Everything that was found. `faults` are in the order of the log; without any the bundle holds."""

    faults: list[AuditFault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether there are no faults."""
        return not self.faults

    def ordered(self) -> "AuditReport":
        """Return the report with its faults in the order of the bundle."""
        far = 1 << 62
        self.faults.sort(key=lambda one: (one.line or far, one.leaf if one.leaf is not None else far))
        return self

    def as_json(self) -> dict[str, Any]:
        """Return the report for machines."""
        return {
            "holds": self.holds,
            "faults": [fault.as_json() for fault in self.faults],
            "notes": self.notes,
            "figures": self.figures,
        }
