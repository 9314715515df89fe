"""Where the rules of a policy stand, as people are told it."""

from pathlib import Path

import pytest

from towpath_fabric.profiles.policy_profiles import policy_file_name, profile_file
from towpath_tas.adapters.policy_texts import read_policy_text

POLICY = """kind: Policy
rules:
  - {name: one, tool: a.b, effect: deny}

  # Two tools.
  - name: two
    effect: allow
"""


def places(text: str, source: str) -> dict[str, str]:
    read = read_policy_text(text, source).read
    assert read.problems == ()
    return {rule.name: rule.at for rule in read.rules}


@pytest.mark.parametrize(
    ("source", "one", "two"),
    [
        ("policies.yaml", "policies.yaml:3", "policies.yaml:6"),
        ("shop/policies.yml", "shop/policies.yml:3", "shop/policies.yml:6"),
        ("../policies.JSON", "../policies.JSON:3", "../policies.JSON:6"),
        ("/etc/shop/policies.yaml", "policies.yaml:3", "policies.yaml:6"),
        ("C:\\shop\\policies.yaml", "policies.yaml:3", "policies.yaml:6"),
        ("https://user:secret@host/shop/policies.yaml", "policies.yaml:3", "policies.yaml:6"),
        ("shop/\x1b[31mpolicies.yaml", "shop/[31mpolicies.yaml:3", "shop/[31mpolicies.yaml:6"),
        ("profile open", "profile open:3", "profile open:6"),
        ("shop/policy.py:12", "shop/policy.py:12", "shop/policy.py:12"),
        ("/srv/shop/policy.py:12", "policy.py:12", "policy.py:12"),
        ("console", "", ""),
        ("version 7", "", ""),
        ("", "", ""),
    ],
)
def test_a_rule_stands_in_its_file_or_in_the_line_of_a_program(source: str, one: str, two: str) -> None:
    assert places(POLICY, source) == {"one": one, "two": two}


def test_rules_of_a_profile_stand_in_the_profile() -> None:
    lines = profile_file("balanced").read_text("utf-8").splitlines()
    text = "profile: balanced\nrules:\n  - {name: mine, tool: a.b, effect: deny}\n"
    found = places(text, "policies.yaml")
    assert found.pop("mine") == "policies.yaml:3"
    assert found
    for name, at in found.items():
        source, _, line = at.rpartition(":")
        assert source == "profile balanced"
        assert name in lines[int(line) - 1]


def test_own_rules_keep_their_lines_where_their_list_is_written_anew() -> None:
    text = (
        "profile: balanced\nrules: [{name: one, tool: a.b, effect: deny},\n  {name: two, tool: a.c, effect: allow}]\n"
    )
    found = places(text, "policies.yaml")
    assert (found["one"], found["two"]) == ("policies.yaml:2", "policies.yaml:3")


def test_a_followed_file_is_called_as_seen_from_where_people_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert policy_file_name(tmp_path / "shop" / "policies.yaml") == "shop/policies.yaml"
    assert policy_file_name(Path("/etc/towpath/policies.yaml")) == "policies.yaml"
    assert policy_file_name(profile_file("open").absolute()) == "profile open"
