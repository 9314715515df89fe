"""The page about the audit names every kind of entry."""

from tests.support.places import ROOT

from towpath_audit import sealed_persons, sealed_tools
from towpath_audit.sealed_calls import STATUS_AFTER
from towpath_orchestrator.app.api.run_control import PHASES


def test_every_kind_of_entry_is_listed() -> None:
    text = (ROOT / "docs" / "audit.md").read_text("utf-8")
    table = "\n".join(line for line in text.splitlines() if line.startswith("| `"))
    kinds = {phase for phase, _verdict in STATUS_AFTER} | {*sealed_persons.SCOPE_OF, *sealed_persons.OPERATED}
    kinds |= {*PHASES.values(), *sealed_tools.IN_FORCE_AFTER, *sealed_persons.VOTES}
    assert [kind for kind in sorted(kinds) if f"`{kind}`" not in table] == []
