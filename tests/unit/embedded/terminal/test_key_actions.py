"""What the keys of `towpath up` tell, apart from a running platform."""

from typing import Any

from towpath_embedded.terminal.key_actions import KEYS, doctor_lines, has_display
from towpath_embedded.terminal.own_gateway import CALLS, DAYS, GATES, told_impact


def check(good: bool | None, **more: Any) -> dict[str, Any]:
    return {"check": "tas", "good": good, "detail": "not ready", "remedy": "Read tas.log.", **more}


def test_the_doctor_tells_what_is_wrong_and_how_much_was_looked_at() -> None:
    assert doctor_lines([check(True), check(None)]) == [("✓ 2 checks, nothing is wrong", "green")]
    told = [("✕ tas: not ready · Read tas.log.", "red"), ("✕ 1 of 2 checks failed", "red")]
    assert doctor_lines([check(True), check(False)]) == told


def test_the_keys_fit_a_line_of_eighty_columns() -> None:
    assert len(" · ".join(f"{key} {what}" for key, what in KEYS.items())) <= 76


def test_without_a_display_no_browser_takes_the_terminal() -> None:
    assert not has_display({"TERM": "xterm"})
    assert all(has_display({name: ":0"}) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


def test_a_change_of_the_policy_tells_its_rules_and_what_would_become_of_past_calls() -> None:
    assert (CALLS, DAYS, GATES) == (5_000, 30, 100)
    groups = [
        {"change": "newly_denied", "calls": 2},
        {"change": "newly_denied", "calls": 1},
        {"change": "newly_gated", "calls": 1},
    ]
    told = told_impact({"changes": [{}]}, {"groups": groups, "next_after": None})
    assert told == "1 rule changed; 3 past calls would be denied; 1 past call would be held for a person"
    assert told_impact({"changes": [{}], "more": 4}, {"groups": []}) == "5 rules changed"
    opened = [{"change": "newly_allowed", "calls": 1}]
    assert told_impact({"changes": []}, {"groups": opened, "next_after": 9}).endswith("1+ past calls would be allowed")
