"""`towpath policy test` needs no platform, explains each failure and tells by its exit code; moments are read."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from towpath.cli import main
from towpath.cli.shared.times import parse_time
from towpath_contracts.problems.registry import ProblemError
from towpath_fabric.clock import wall

POLICY = """kind: Policy
rules:
  - {name: small, tool: orders.refund, effect: allow, when: args.amount <= 100}
  - {name: large, tool: orders.refund, effect: require_approval, when: args.amount > 100}
"""
CASES = """kind: PolicyTest
policy: policy.yaml
cases:
  - {name: small refunds pass, tool: orders.refund, args: {amount: 5}, verdict: allow, rule: small}
  - {tool: orders.refund, args: {amount: 500}, verdict: require_approval}
  - {tool: mail.send, verdict: deny, rule: ""}
"""


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    (tmp_path / "policy.yaml").write_text(POLICY, "utf-8")
    (tmp_path / "cases.yaml").write_text(CASES, "utf-8")
    return tmp_path / "cases.yaml"


def test_expected_verdicts_are_checked_without_a_platform(cases: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "test", str(cases), "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["cases"], output["failed"], [one["rule"] for one in output["results"]]) == (
        3,
        0,
        ["small", "large", None],
    )
    loose = cases.parent / "loose.yaml"
    loose.write_text(POLICY.replace("<= 100", "<= 1000").replace("> 100", "> 1000"), "utf-8")
    assert main(["policy", "test", str(cases), "--policy", str(loose), "-o", "table"]) == 1
    shown = capsys.readouterr().out
    assert f"{cases}:5: orders.refund amount=500: expected require_approval, got allow by small" in shown
    assert "✓ small (loose.yaml:3) allow  condition yes: args.amount <= 1000" in shown
    assert "2 of 3 verdicts" in shown


def test_a_bad_file_is_refused_with_its_name(cases: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = cases.parent / "bad.yaml"
    bad.write_text(CASES.replace("verdict: allow", "verdict: alow"), "utf-8")
    assert main(["policy", "test", str(bad)]) == 2
    assert f"The policy test can't be read: {bad}:4: " in (said := capsys.readouterr().err)
    assert "verdict" in said and "Correct the file at the line that is named" in said
    (cases.parent / "policy.yaml").write_text("kind: Policy\n", "utf-8")
    assert main(["policy", "test", str(cases)]) == 2
    assert f"{cases.parent / 'policy.yaml'}:1: " in capsys.readouterr().err
    assert main(["policy", "test", "/nowhere/cases.yaml"]) == 2
    assert main(["policy", "test", str(cases), "--policy", "p.yaml", "--live"]) == 2


def test_moments_are_times_or_how_long_ago() -> None:
    ago = parse_time("30d", "--since")
    assert ago is not None
    assert timedelta(days=29) < wall() - ago < timedelta(days=31)
    assert parse_time("2026-11-01T08:00", "--since") == datetime(2026, 11, 1, 8, tzinfo=UTC)
    assert parse_time("2026-11-01T08:00+02:00", "--since") == datetime(2026, 11, 1, 6, tzinfo=UTC)
    assert parse_time(None, "--since") is None
    for wrong in ("soon", "999999w", "2026-13-01"):
        with pytest.raises(ProblemError):
            parse_time(wrong, "--since")
