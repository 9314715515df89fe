"""What the keys of `towpath up` tell, apart from a running platform."""

import asyncio
import sys
import threading
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.gateway.web import response, web

from towpath_contracts.problems.registry import ProblemDetail, problem
from towpath_embedded.console import UpConsole
from towpath_embedded.platform import Platform
from towpath_embedded.refused_files import RefusedFiles
from towpath_embedded.terminal.key_actions import KEYS, KeyActions, doctor_lines, has_display
from towpath_embedded.terminal.own_gateway import CALLS, DAYS, GATES, calls_of_groups, told_impact


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


def test_what_the_policy_before_had_made_of_past_calls_is_not_told_again() -> None:
    allowed = {"change": "newly_allowed", "tool": "orders.refund", "examples": [{"run_id": "a"}]}
    before = calls_of_groups({"groups": [{**allowed, "calls": 1}]})
    same = {"groups": [{**allowed, "calls": 1, "examples": [{"run_id": "b"}]}]}
    assert told_impact({"changes": [{}]}, same, before) == "1 rule changed"
    more = {"groups": [{**allowed, "calls": 3}, {**allowed, "tool": "mail.send", "calls": 1}]}
    assert told_impact({"changes": [{}]}, more, before) == "1 rule changed; 3 past calls would be allowed"


class PlatformAt(Platform):
    """A platform that was not started, whose gateway is said to answer at an address."""

    address = "http://127.0.0.1:1"

    @property
    def gateway_url(self) -> str:
        return self.address


@dataclass
class Pressed:
    """The actions of keys, what they told, and which files are refused."""

    actions: KeyActions
    told: list[str]
    refused: RefusedFiles
    policy: Path

    async def press(self, key: str) -> str:
        """Return what is told until the action has ended."""
        self.told.clear()
        self.actions.by_key()[key]()
        await self.actions._under_way[key]
        return "\n".join(self.told)


@pytest.fixture
def pressed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pressed:
    monkeypatch.setenv("TOWPATH_AUTH", "on")
    monkeypatch.setenv("TOWPATH_API_KEY", "twp_of_the_environment")
    policy, told, screen = tmp_path / "p.yaml", list[str](), UpConsole(as_json=False)
    policy.write_text("kind: Policy\nrules: []\n")
    monkeypatch.setattr(screen, "notice", lambda line, *_: told.append(line))
    refused = RefusedFiles(lambda *_, **_more: None, lambda _: None)
    platform = PlatformAt(tmp_path)
    return Pressed(
        KeyActions(platform, screen, refused, asyncio.Event(), folder=None, policy=policy), told, refused, policy
    )


def test_every_key_is_shown_told_by_the_help_and_taken(pressed: Pressed) -> None:
    assert [*pressed.actions.by_key()] == [*KEYS]
    pressed.actions.by_key()["?"]()
    assert [line[:3] for line in pressed.told] == [f"{key}  " for key in KEYS]


def refusal(code: str, *errors: str) -> bytes:
    found = problem(code, "why", errors=tuple(ProblemDetail(detail=one) for one in errors))
    return response(found.status, found.model_dump_json().encode(), content_type="application/problem+json")


async def test_a_reload_keeps_a_policy_as_refused_for_what_stands_in_it_alone(
    pressed: Pressed, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [
        refusal("policy_invalid", "line 2: no rules", "more"),
        response(503, b"away"),
        refusal("unauthenticated"),
        refusal("forbidden"),
        response(200, b'{"version": 4, "changed": false}'),
        refusal("request_too_large"),
    ]
    async with web(lambda _: answers.pop(0)) as site:
        monkeypatch.setattr(PlatformAt, "address", site.url("", host="127.0.0.1"))
        assert await pressed.press("r") == ""
        faults = {"p.yaml": ("p.yaml:2: no rules", "p.yaml: more")}
        assert pressed.refused.faults == faults
        away = await pressed.press("r")
        assert "p.yaml was not applied: unavailable: " in away and away.endswith("what is wrong: towpath doctor.")
        assert "Set TOWPATH_API_KEY before towpath up" in await pressed.press("r")
        assert (await pressed.press("r")).endswith(problem("forbidden", "").remedy)
        assert pressed.refused.faults == faults, "nobody said that it is mended"
        assert await pressed.press("r") == "p.yaml in force: version 4, as before"
        assert pressed.refused.faults == {}
        assert await pressed.press("r") == ""
        assert pressed.refused.faults == {"p.yaml": ("p.yaml: why",)}
    sent = b64encode(b"local:twp_of_the_environment").decode()
    assert {asked.headers["authorization"] for asked in site.asked} == {f"Basic {sent}"}, "as the doctor sends it"


async def test_a_policy_that_is_no_text_is_refused_and_one_that_cannot_be_sent_is_told(pressed: Pressed) -> None:
    assert "p.yaml was not applied: ConnectError" in await pressed.press("r")
    assert pressed.refused.faults == {}
    pressed.policy.write_bytes(b"\xff")
    assert await pressed.press("r") == ""
    assert "invalid start byte" in pressed.refused.faults["p.yaml"][0]
    pressed.policy.unlink()
    assert "it can't be read" in await pressed.press("r")


def browsers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "open browser"]


async def test_a_browser_that_is_waited_for_holds_nothing_up_and_the_link_is_told(
    pressed: Pressed, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = threading.Event()
    monkeypatch.setattr("webbrowser.open", lambda _: closed.wait(30))
    monkeypatch.setenv("DISPLAY", ":0")
    assert (await pressed.press("o")).endswith(f"where none opens it: {PlatformAt.address}")
    (waiting,) = browsers()
    assert waiting.daemon, "the end does not wait for it"
    closed.set()
    waiting.join()
    monkeypatch.setenv("TOWPATH_AUTH", "auto")
    platform = PlatformAt(pressed.actions._platform.data)
    platform.access.prepare()
    pressed.actions._platform = platform
    monkeypatch.setattr("webbrowser.open", lambda _: False)
    assert "/sign-in?token=" in await pressed.press("o") and "(the link signs in once)" in pressed.told[0]
    for thread in browsers():
        thread.join()
    await asyncio.sleep(0)
    assert pressed.told[1].startswith("no browser was found; open http")
    await pressed.actions.stop()


async def test_a_doctor_that_cannot_be_started_is_told(pressed: Pressed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert (await pressed.press("d")).endswith("the doctor gave no answer: FileNotFoundError; ask it: towpath doctor")
