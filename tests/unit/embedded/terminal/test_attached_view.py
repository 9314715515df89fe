"""What the attached view looks at is looked at again where it failed, and no failure is told as the platform's end."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from towpath_embedded import attached_view
from towpath_embedded.attached_view import AttachedView
from towpath_embedded.console import UpConsole
from towpath_embedded.terminal.untaken_calls import UntakenCalls

STATE: dict[str, Any] = {"gateway_url": "http://127.0.0.1:9", "processes": {}}


class Told:
    """The notices of a view."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lines: list[str] = []
        self.any = asyncio.Event()
        monkeypatch.setattr(UpConsole, "notice", self._notice)

    def _notice(self, line: str, style: str = "") -> None:
        self.lines.append(line + style[:0])
        self.any.set()


@pytest.fixture
def view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AttachedView:
    (tmp_path / "logs").mkdir()
    monkeypatch.setattr(attached_view, "_nats_url", lambda _: "nats://127.0.0.1:9")
    monkeypatch.setattr(attached_view, "running_state", lambda _: STATE)
    return AttachedView(tmp_path, STATE, UpConsole(as_json=False))


async def test_a_look_that_fails_is_told_and_begun_again(view: AttachedView, monkeypatch: pytest.MonkeyPatch) -> None:
    async def follow(_: UntakenCalls) -> None:
        raise OSError("no more files")

    monkeypatch.setattr(UntakenCalls, "follow", follow)
    told, stopping = Told(monkeypatch), asyncio.Event()
    shown = asyncio.create_task(view.show_until(stopping))
    await asyncio.wait_for(told.any.wait(), 10)
    stopping.set()
    assert await asyncio.wait_for(shown, 10) is False
    assert "looking at calls that nobody takes failed, and is begun again: OSError: no more files" in told.lines


async def test_a_state_that_says_nothing_of_restarts_is_no_end_of_the_platform(
    view: AttachedView, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A platform of another version may say less."""
    asked: list[None] = []

    def state(_: Path) -> dict[str, Any]:
        asked.append(None)
        if len(asked) > 2:
            stopping.set()
        return {"processes": {"gateway": {}, "tas": {"restarts": len(asked)}}}

    told, stopping = Told(monkeypatch), asyncio.Event()
    monkeypatch.setattr(attached_view, "POLL_S", 0.01)
    monkeypatch.setattr(attached_view, "running_state", state)
    assert await asyncio.wait_for(view.show_until(stopping), 10) is False
    assert "tas ended and was started again; why: towpath logs tas" in told.lines
