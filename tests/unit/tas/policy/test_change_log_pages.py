"""A page of the change log is one message, and compares few rules enough at once."""

import json
from typing import Any

from towpath_tas.app.policy.policies import MIN_RULE_CHARS
from towpath_tas.app.policy.policy_versions import MAX_CHANGES_CHARS, MAX_COMPARED_RULES, _change_log, _comparable
from towpath_tas.core.policy.matrix import Rule
from towpath_tas.core.policy.policy_file import rule_row


def version(number: int, rules: int) -> dict[str, Any]:
    return {"version": number, "digest": "d", "rules": rules}


def stored(number: int, name: str, note: str) -> dict[str, Any]:
    return {"version": number, "rule": json.dumps(rule_row(Rule(name=name, effect="deny", note=note)))}


def test_a_stored_rule_has_as_many_characters_as_are_counted_before_it_is_read() -> None:
    assert len(json.dumps(rule_row(Rule(name="a", effect="deny")))) >= MIN_RULE_CHARS


def test_a_page_has_the_versions_that_can_be_compared_and_one_at_least() -> None:
    rows = [version(number, MAX_COMPARED_RULES // 4) for number in (5, 4, 3, 2, 1)]
    assert [row["version"] for row in _comparable(rows[:4], rows)] == [5, 4]
    rows = [version(number, MAX_COMPARED_RULES) for number in (3, 2, 1)]
    assert [row["version"] for row in _comparable(rows, rows)] == [3]
    rows = [version(number, 3) for number in (3, 2, 1)]
    assert _comparable(rows, rows) == rows


def test_of_a_large_change_two_hundred_rules_are_listed_and_the_others_counted() -> None:
    for rules, more in ((200, 0), (201, 1)):
        log = _change_log([version(1, rules)], [stored(1, f"r{number}", "") for number in range(rules)], 1)
        assert (len(log.changes[0].changes), log.changes[0].more) == (200, more)


def test_a_page_ends_where_its_changes_fill_a_message_and_says_where_the_next_begins() -> None:
    page = [version(number, 1) for number in (4, 3, 2, 1)]
    rules = [stored(number, f"r{number}", "n" * (MAX_CHANGES_CHARS // 3)) for number in (4, 3, 2, 1)]
    log = _change_log(page, rules, 4)
    assert ([one.version for one in log.changes], log.next_before) == ([4], 4)
    rules = [stored(number, f"r{number}", "") for number in (4, 3, 2, 1)]
    log = _change_log(page, rules, 4)
    assert ([one.version for one in log.changes], log.next_before) == ([4, 3, 2, 1], None)
    assert _change_log([], [], 0).next_before is None
