"""Decides the gates of a case as its suite says, and keeps what was expected in vain or came unexpected."""

from dataclasses import dataclass, field

from towpath_contracts.base import JsonObject
from towpath_contracts.files.evaluation_suite import ExpectedGate
from towpath_testing.evaluation.arguments import includes
from towpath_testing.runs import HarnessGate

UNEXPECTED = "no gate of the evaluation's case is this one"


@dataclass(slots=True)
class GatePlan:
    """The gates that must still open. One that opens takes the first that fits; one that none fits is denied."""

    waiting: list[ExpectedGate]
    decided: list[JsonObject] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    async def decide(self, gate: HarnessGate) -> None:
        """Settle *gate*."""
        expected = next((one for one in self.waiting if _fits(one, gate)), None)
        if expected is None:
            self.failures.append(f"a gate opened that is not expected: {_named(gate)}")
            self.decided.append(_told(gate, "denied"))
            await gate.deny(UNEXPECTED)
            return
        self.waiting.remove(expected)
        self.decided.append(_told(gate, expected.decide))
        match expected.decide:
            case "approve":
                await gate.approve(expected.reason, edit=expected.edit)
            case "deny":
                await gate.deny(expected.reason)
            case other:
                await gate.resolve(other, expected.reason)

    def unmet(self) -> list[str]:
        """Return what is wrong, once the run has ended."""
        return [*self.failures, *(f"no gate opened for {_wanted(one)}" for one in self.waiting)]


def _fits(expected: ExpectedGate, gate: HarnessGate) -> bool:
    wanted = ((expected.kind, gate.kind), (expected.rule, gate.rule), (expected.tool, gate.tool))
    return all(one is None or one == found for one, found in wanted) and includes(gate.args, expected.args)


def _named(gate: HarnessGate) -> str:
    return " ".join(filter(None, (gate.kind, gate.rule, gate.tool, str(gate.args) if gate.args else "")))


def _wanted(expected: ExpectedGate) -> str:
    args = str(expected.args) if expected.args else ""
    return " ".join(filter(None, (expected.kind, expected.rule, expected.tool, args))) or "anything"


def _told(gate: HarnessGate, decided: str) -> JsonObject:
    return {"kind": gate.kind, "rule": gate.rule, "tool": gate.tool, "args": gate.args, "decided": decided}
