"""What a fork is asked for, as its idempotency key remembers it."""

from towpath_contracts.runs.records import ForkOptions


def test_what_an_earlier_release_did_not_know_changes_no_digest_of_a_request() -> None:
    """Else the repeat of a fork that was asked for before an upgrade is refused as another request."""
    before = {"schema_version", "from_step", "note", "script", "idempotency_key"}
    assert set(ForkOptions(from_step=1).model_dump(mode="json")) == before
    assert set(ForkOptions(from_step=1, fresh_budget=True).model_dump(mode="json")) == {*before, "fresh_budget"}
