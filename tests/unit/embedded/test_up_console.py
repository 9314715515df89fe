"""What `towpath up` says when it is ready: the policy in force, and how another shell gets in."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from towpath.model_keys import ModelKeys, no_provider_key
from towpath_contracts.problems.registry import problem
from towpath_embedded.console import UpConsole, next_steps, policy_line, shell_line
from towpath_embedded.terminal.log_notices import IN_FORCE, policy_in_force, policy_notice
from towpath_fabric.process_protection import PROVIDER_KEYS

FOLLOWED = {"version": 5, "rules": 2, "source": "/home/ann/policy.yaml", "applied_by": "file"}


@pytest.mark.parametrize(
    ("policy", "shown"),
    [
        (FOLLOWED, "policy.yaml, version 5 (2 rules)"),
        ({**FOLLOWED, "source": "profile balanced", "rules": 6}, "balanced, version 5 (6 rules)"),
        ({**FOLLOWED, "rules": 1}, "policy.yaml, version 5 (1 rule)"),
        ({**FOLLOWED, "source": "rule small", "applied_by": "ann"}, "version 5 (2 rules)"),
        ({"version": 0, "rules": 0, "source": "", "applied_by": ""}, "none"),
    ],
)
def test_the_policy_in_force_is_one_line(policy: dict[str, object], shown: str) -> None:
    assert policy_line(policy)[1] == shown


def test_a_change_by_a_person_is_named_as_the_last_one() -> None:
    assert (
        policy_line({**FOLLOWED, "source": "rule small", "applied_by": "ann"})[2] == "last changed by ann: rule small"
    )


def test_without_a_policy_it_says_that_every_call_is_denied() -> None:
    assert "every call is denied" in policy_line({"version": 0, "rules": 0, "source": "", "applied_by": ""})[2]


def test_a_policy_that_was_refused_is_to_be_mended_and_no_other_is_asked_for() -> None:
    _, shown, note = policy_line({"version": 0, "rules": 0, "source": "", "applied_by": "", "refused": "policies.yaml"})
    assert (shown, note) == ("none", "every call is denied until policies.yaml is mended: see above")
    assert policy_line({**FOLLOWED, "refused": "policy.yaml"})[1:] == (
        "policy.yaml, version 5 (2 rules)",
        "as it was before it was refused: see above",
    )


def test_the_policy_is_read_from_the_log_of_the_tool_access_service_alone() -> None:
    line = json.dumps({"event": IN_FORCE, "level": "info", **FOLLOWED})
    assert policy_in_force("tas", line) == FOLLOWED
    assert policy_in_force("worker", line) is None
    assert policy_in_force("tas", f"no JSON: {IN_FORCE}") is None
    assert policy_in_force("tas", json.dumps({"event": "policy applied", "version": 5})) is None


def test_what_a_followed_policy_is_warned_about_is_told_once_by_its_file_and_line() -> None:
    said = "rule look-up: no registered tool matches 'orders.find'"
    warned = {"event": "policy warning", "level": "info", "file": "policy.yaml", "warning": f"line 3: {said}"}
    assert policy_notice("tas", json.dumps(warned)) == f"policy.yaml:3: {said}"
    assert policy_notice("worker", json.dumps(warned)) is None


def test_nothing_of_others_that_a_terminal_would_obey_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "a\x1b]0;title\x07b \x9b31m\x1b[2Jc"
    screen = UpConsole(as_json=False)
    screen.notice(hostile)
    screen.refused(hostile, [hostile])
    screen.log("worker", hostile)
    screen.problem(problem("unavailable", hostile, remedy=hostile))
    state = {"gateway_url": "", "nats_url": "nats://here", "database_url": "postgresql:///", "logs": "/", "models": []}
    screen.ready({**state, "data": f"/{hostile}", "processes": {}}, seconds=1, ephemeral=False)
    said = capsys.readouterr()
    assert said.out.count("ab 31mc") == 5
    assert said.err.count("ab 31mc") == 2
    assert not set("\x1b\x07\x9b") & set(said.out + said.err)


def test_the_line_for_the_shell_reads_the_token_and_does_not_show_it(tmp_path: Path) -> None:
    file = tmp_path / "it's here" / "authorization"
    file.parent.mkdir()
    file.write_text("Authorization: Bearer s3cr-et_1\n")
    line = shell_line({"authorization_file": str(file), "gateway_url": "http://127.0.0.1:8787"})
    assert "s3cr" not in line
    asked = f'{line}; printf "%s %s" "$TOWPATH_SERVER" "$TOWPATH_API_KEY"'
    shown = subprocess.run(["sh", "-c", asked], capture_output=True, text=True, check=True).stdout
    assert shown == "http://127.0.0.1:8787 s3cr-et_1"


def test_it_is_shown_only_where_the_command_line_does_not_find_the_platform_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for data, told in ((tmp_path / ".towpath", False), (tmp_path / "elsewhere", True)):
        state = dict.fromkeys(("nats_url", "nats_monitoring_url", "database_url", "logs", "sign_in_url"), "x")
        state |= {"gateway_url": "http://127.0.0.1:1", "data": str(data), "authorization_file": str(data / "a")}
        UpConsole(as_json=False).ready({**state, "processes": {}}, seconds=1, ephemeral=False)
        assert ("TOWPATH_API_KEY" in capsys.readouterr().out) is told


def told(capsys: pytest.CaptureFixture[str], **state: object) -> list[str]:
    """Return the lines of a platform that is ready."""
    names = ("nats_url", "database_url", "logs", "data", "authorization_file")
    known = {**dict.fromkeys(names, "x"), "processes": {}, "gateway_url": "http://127.0.0.1:1", **state}
    UpConsole(as_json=False).ready(known, seconds=1, ephemeral=False)
    return capsys.readouterr().out.splitlines()


def test_the_console_comes_first_with_its_link_and_without_one_where_keys_are_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    link = "http://127.0.0.1:1/sign-in?token=abc"
    first = told(capsys, sign_in_url=link, models=[])
    assert first[0].split()[:2] == ["Console", link] and sum("Console" in line for line in first) == 1
    assert any("no key is set: GEMINI_API_KEY" in line for line in first)
    assert told(capsys, sign_in_url=None)[0].split()[:2] == ["Console", "http://127.0.0.1:1"]
    assert any("openai" in line and "have a key" in line for line in told(capsys, models=["openai"]))


def test_what_is_loaded_is_counted_and_mcp_has_its_address(capsys: pytest.CaptureFixture[str]) -> None:
    shown = told(capsys, loaded={"networks": 2, "agents": 3, "tools": 1, "refused": 0})
    (line,) = [line for line in shown if line.startswith("  Loaded ")]
    assert " ".join(line.split()) == "Loaded 2 networks · 3 agents · 1 tool nothing was refused"
    for waiting, words in ((1, "3 tools (1 needs approval) "), (2, "3 tools (2 need approval) "), (0, "3 tools  ")):
        counted = {"networks": 1, "agents": 1, "tools": 3, "need_approval": waiting, "refused": 0}
        assert any(words in line for line in told(capsys, loaded=counted)), waiting
    assert any("http://127.0.0.1:1/mcp" in line and "towpath mcp config" in line for line in shown)
    for refused, said in ((1, "1 file refused"), (2, "2 files refused")):
        shown = told(capsys, loaded={"networks": 1, "agents": 0, "tools": 0, "refused": refused})
        assert any("1 network · 0 agents · 0 tools" in line and said in line for line in shown)
    assert not any("Loaded" in line for line in told(capsys))


def test_a_note_without_room_on_the_terminal_stands_below_and_in_a_pipe_beside(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    note = "no key is set: GEMINI_API_KEY, OPENAI_API_KEY or ANTHROPIC_API_KEY"
    value = "  Models    scripted alone"
    assert any(line.startswith(value) and line.endswith(note) for line in told(capsys, models=[]))
    for name, said in (("COLUMNS", "80"), ("FORCE_COLOR", "1"), ("NO_COLOR", "1"), ("TERM", "xterm")):
        monkeypatch.setenv(name, said)
    shown = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in told(capsys, models=[])]
    assert shown[shown.index(value) + 1] == f"{'':<12}{note}"
    assert max(map(len, shown)) <= 80


def test_only_a_platform_with_the_sample_or_with_nothing_of_ones_own_says_what_is_next() -> None:
    assert "towpath run support" in next_steps({"sample": "/x", "is_bare": False})[0]
    assert "towpath up --sample" in next_steps({"sample": "", "is_bare": True})[0]
    assert next_steps({"sample": "", "is_bare": False}) == next_steps({}) == ()


@pytest.mark.parametrize(
    ("variable", "provider"),
    [
        ("GEMINI_API_KEY", "gemini"),
        ("GOOGLE_API_KEY", "gemini"),
        ("OPENAI_API_KEY", "openai"),
        ("ANTHROPIC_API_KEY", "anthropic"),
        ("TOWPATH_LOCAL_URL", "local"),
    ],
)
def test_a_provider_can_be_asked_where_its_variable_is_set(
    variable: str, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in (*PROVIDER_KEYS, "TOWPATH_LOCAL_URL"):
        monkeypatch.delenv(other, raising=False)
    assert ModelKeys().found() == ()
    monkeypatch.setenv(variable, "x")
    assert ModelKeys().found() == (provider,)


@pytest.mark.parametrize(
    ("key", "own", "is_own"),
    [
        ("tok-en", ("tok-en",), True),  # of .towpath/authorization
        ("tok-en", (), False),
        ("my-key", (), True),  # of TOWPATH_API_KEY
        ("twp_0123456789ab.s3cret", (), True),
        ("sk-1234", ("tok-en",), False),
    ],
)
def test_a_key_of_towpath_is_not_taken_for_a_providers(
    key: str, own: tuple[str, ...], is_own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in (*PROVIDER_KEYS, "TOWPATH_LOCAL_URL"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv("TOWPATH_API_KEY", "my-key")
    monkeypatch.setenv("OPENAI_API_KEY", key)
    keys = ModelKeys()
    assert keys.found(own) == (() if is_own else ("openai",))
    assert keys.taken_for_keys(own) == (("OPENAI_API_KEY",) if is_own else ())
    told = no_provider_key(["OPENAI_API_KEY"])
    assert "OPENAI_API_KEY holds a key of Towpath and none of a provider" in told and key not in told
