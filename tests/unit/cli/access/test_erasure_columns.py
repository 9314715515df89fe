"""What a person reads about an erasure: who may confirm it, and from when on."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from towpath.cli.runs.runs_commands import run_status
from towpath.cli.shared.erasure_columns import alone_from, erased_things, show_request
from towpath.cli.shared.output import OutputPrinter
from towpath_contracts.tools.erasures import ErasureView

NOW = datetime(2026, 11, 24, 8, tzinfo=UTC)
ASKED = ErasureView(
    erasure_id=UUID(int=1),
    kind="run",
    project="p",
    status="requested",
    run_id=UUID(int=2),
    runs=2,
    run_ids=(UUID(int=2), UUID(int=3)),
    reason="request 4711",
    requested_by="dana",
    requested_at=NOW,
    alone_from=NOW + timedelta(hours=72),
)
CONFIRM = f"towpath erasures confirm {UUID(int=1)}"


def test_after_asking_another_person_is_named_and_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    show_request(OutputPrinter("table"), ASKED)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == (
        f"nothing is erased yet; another person confirms it, or dana from 2026-11-27 08:00 UTC on: {CONFIRM}"
    )


def test_the_runs_that_go_with_one_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    show_request(OutputPrinter("table"), ASKED)
    shown = capsys.readouterr().out
    assert f"run {UUID(int=2)} and 1 below it" in shown
    assert f"{UUID(int=2)} {UUID(int=3)}" in shown
    assert erased_things({"kind": "run", "run_id": "r", "runs": 1}) == "run r"


def test_a_single_person_is_told_to_confirm_it_now(capsys: pytest.CaptureFixture[str]) -> None:
    alone = ASKED.model_copy(update={"single_person": True})
    show_request(OutputPrinter("table"), alone)
    shown = capsys.readouterr().out
    assert shown.splitlines()[-1] == f"nothing is erased yet; confirm it: {CONFIRM}"
    assert "2026-11-27" not in shown
    done = alone.model_copy(update={"status": "done"})
    assert alone_from(done.model_dump(mode="json")) == "2026-11-27 08:00"


def test_an_erased_run_is_shown_as_erased() -> None:
    assert run_status({"status": "completed", "erased_at": "2026-11-24T08:00:00Z"}) == "completed, erased"
    assert run_status({"status": "completed", "erased_at": None}) == "completed"
