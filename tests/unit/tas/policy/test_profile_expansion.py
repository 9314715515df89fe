"""A policy that names a profile has that profile's rules written out below its own."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath_tas.adapters.cel import compile_condition
from towpath_tas.core.policy.policy_file import read_policy
from towpath_tas.core.policy.profile_expansion import expand_profile

PROFILE = """\
# calm: an example
kind: Policy
rules:
  - name: calm/work
    tool: "*"
    effect: allow

  # Mails go where the task says.
  - name: calm/mail
    tool: mail.*
    effect: require_approval
    when: origin.worst_sink == "unknown"
    note: |
      Somebody looks
      at it.
"""
OWN = """\
{head}
rules:
  - {{name: no-pay, tool: "pay.*", effect: deny}}   # never
  - name: slow
    tool: mail.send
    effect: require_approval
# the end
"""


def expanded(text: str) -> str:
    found = expand_profile(text, {"calm": PROFILE})
    assert not found.problems
    return found.text


def names(text: str) -> list[str]:
    read = read_policy(text, compile_condition)
    assert not read.problems
    return [rule.name for rule in read.rules]


@pytest.mark.parametrize("text", ["profile: calm", "profile: calm\n", "# mine\nprofile: 'calm'   # of the release\n"])
def test_a_file_that_only_names_a_profile_is_a_whole_policy(text: str) -> None:
    assert names(expanded(text)) == ["calm/work", "calm/mail"]


def test_the_rules_of_a_profile_mean_the_same_written_out() -> None:
    out = expanded("profile: calm\nkind: Policy\nrules: []\n")
    assert read_policy(out, compile_condition).rules == read_policy(PROFILE, compile_condition).rules


@pytest.mark.parametrize("head", ["profile: calm\nkind: Policy", "kind: Policy\nprofile: calm", "profile: calm"])
def test_own_rules_keep_their_lines_and_comments(head: str) -> None:
    text = OWN.format(head=head)
    out = expanded(text)
    assert names(out) == ["no-pay", "slow", "calm/work", "calm/mail"]
    kept = [line for line in text.splitlines() if not line.startswith("profile:") and line != "# the end"]
    assert [line for line in out.splitlines()[: len(text.splitlines()) - 1] if line in kept] == kept
    assert "# Mails go where the task says." in out
    assert out.endswith("# the end\n")


def test_written_out_it_names_no_profile_any_more_so_it_stays_as_it_is() -> None:
    out = expanded("profile: calm\n")
    assert expand_profile(out, {}).text == out


def test_c14_an_own_rule_takes_the_place_of_the_profiles_rule_of_that_name() -> None:
    text = "profile: calm\nrules:\n- name: calm/work\n  tool: 'notes.*'\n  effect: allow\n"
    read = read_policy(expanded(text), compile_condition)
    assert [(rule.name, rule.tool) for rule in read.rules] == [("calm/work", "notes.*"), ("calm/mail", "mail.*")]


def test_rules_on_one_line_are_written_anew() -> None:
    text = (
        "profile: calm\nrules: [{name: one, tool: a.b, effect: deny}, {name: two, tool: a.c, effect: allow}]\nnote: x\n"
    )
    assert names(expanded(text)) == ["one", "two", "calm/work", "calm/mail"]


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("profile: clam\n", "profile", "line 1: no profile is called 'clam'; did you mean 'calm'?"),
        ("profile: zzz\n", "profile", "there are calm"),
        ("profile: calm\nkind: Policy\nprofile: calm\n", "duplicate", "line 3"),
        ("profile:\n  calm\n", "form", "on a line of its own"),
        ("{profile: calm, rules: []}\n", "form", "on a line of its own"),
        ("profile: [calm]\n", "form", "on a line of its own"),
        ("profile: calm\n...\n", "form", "rules last"),
    ],
)
def test_a_profile_that_cannot_be_meant_is_refused_with_its_line(text: str, code: str, words: str) -> None:
    (problem,) = expand_profile(text, {"calm": PROFILE}).problems
    assert problem.code == code
    assert words in problem.detail


@pytest.mark.parametrize(
    "text",
    [
        "kind: Policy\nrules: []\n",
        "a: [",
        "- profile: calm\n",
        "",
        "profile: calm\nrules: 5\n",
        "profile: calm\nrules: [5, a]\n",
        "profile: calm\nrules: [{name: [x]}]\n",
        "profile: calm\nrules:\n  - {name: {a: b}}\n",
    ],
)
def test_what_names_no_profile_or_is_wrong_otherwise_is_left_to_the_reader_of_policies(text: str) -> None:
    found = expand_profile(text, {"calm": PROFILE})
    assert not found.problems
    assert found.text.count("\n") == text.count("\n")


@pytest.mark.parametrize("note", ["2024-99-99", "!mine text", "0b", "12:99:99"])
def test_a_value_that_is_only_text_to_a_policy_is_no_fault_of_the_profile(note: str) -> None:
    own = f"profile: calm\nnote: {note}\nrules:\n  - {{name: own, tool: x, effect: deny, note: {note}}}\n"
    assert names(expanded(own)) == ["own", "calm/work", "calm/mail"]
    assert names(expanded(f"profile: calm\nnote: {note}\n")) == ["calm/work", "calm/mail"]


@pytest.mark.parametrize(
    "text",
    [
        "profile: calm\nrules:\n  - name: own\n    ? [a]\n    : b\n",
        "profile: calm\nkind: Policy\nnote:\n  ? [a]\n  : b\n",
    ],
)
def test_what_can_not_be_read_is_told_as_that_with_its_line(text: str) -> None:
    (problem,) = expand_profile(text, {"calm": PROFILE}).problems
    assert (problem.code, problem.detail.startswith("line 4: can't be read")) == ("yaml", True)


LINES = st.sampled_from(
    [
        *(
            "profile: calm\n",
            "profile: calm # c\n",
            "? profile\n: calm\n",
            "profile: &a calm\n",
            "profile:\n",
            "{profile: calm}\n",
        ),
        *("kind: Policy\n", "rules:\n", "rules: []\n", "rules: [5]\n", "rules: {name: x}\n", "rules: [{name: [1]}]\n"),
        *("  - {name: a, tool: b, effect: deny}\n", "- name: c\n  tool: x\n  effect: deny\n", "  - 5\n", "  -\n"),
        *("  - name: calm/work\n    tool: x\n    effect: allow\n", "rules: [{name: a, tool: b, effect: deny}]\n"),
        *("# c\n", "\n", "...\n", "---\n", "note: |\n  a\n  b\n", "note: x\n", "\t", "\u2028", "x: [", "x: *a\n"),
    ]
)


@given(st.lists(LINES, max_size=7))
def test_whatever_the_file_a_named_profile_is_in_force_or_the_file_is_refused(lines: list[str]) -> None:
    found = expand_profile("".join(lines), {"calm": PROFILE})
    read = read_policy(found.text, compile_condition)
    if any("profile" in line for line in lines) and not found.problems and not read.problems:
        assert {"calm/work", "calm/mail"} <= {rule.name for rule in read.rules}


@pytest.mark.parametrize(
    "place", ["rules:\n- *a12\n", "note: *a12\nrules: []\n", "more: *a12\nrules:\n- {name: a, effect: deny}\n"]
)
def test_nested_aliases_are_left_as_they_are_at_once_and_refused_by_who_reads_the_policy(place: str) -> None:
    levels = [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 13)]
    text = "\n".join(["profile: calm", "a0: &a0 [x]", *levels, place])
    begun = time.process_time()
    assert expanded(text) == text
    assert [problem.code for problem in read_policy(text, compile_condition).problems] == ["alias"]
    assert time.process_time() - begun < 1
