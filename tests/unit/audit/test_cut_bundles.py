"""A bundle whose end is missing: the cut is told, and where it is, and nothing that the rest might explain."""

from tests.unit.audit.test_verifier import ALLOW, CLAIM, DONE, found, made

from towpath_audit import bundle
from towpath_audit.verifier import verify


def test_of_a_bundle_that_was_cut_off_it_is_said_where_it_ends_and_nobody_is_accused() -> None:
    """The ledger knows how a call ended, and the rest of the file would say so; what was edited is told."""
    row = bundle.stored(2, {"status": "succeeded", "last_entry": True})
    whole = made(dict(ALLOW), dict(CLAIM), dict(DONE), {}, extra=(row,))
    assert found(whole) == []
    for lines in range(2, len(whole)):
        report = verify(whole[:lines])
        assert ({fault.code for fault in report.faults}, report.faults[0].line) == ({"truncated"}, lines)
        leaves = sum('"kind":"leaf"' in line for line in whole[:lines])
        assert f"at leaf {leaves}" in report.faults[0].message
        untold = "entries that rest on nothing that is here: 1;" in " ".join(report.notes)
        assert untold == (leaves == 3), "the call has begun, and not ended"
    edited = [line.replace('"verdict":"granted"', '"verdict":"refused"') for line in whole[:-1]]
    assert found(edited)[0] == ("entry_changed", 1)
