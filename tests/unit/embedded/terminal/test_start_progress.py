"""What a person sees of a start that takes long: one line that names everything at work, and is gone afterwards."""

import io
import sys
import time

import pytest

from towpath.cli.shared import progress
from towpath_embedded.console import UpConsole
from towpath_embedded.start_progress import StartProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown_at_once(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    made = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "DELAY_S", 0.0)
    monkeypatch.setattr(progress, "REFRESH_S", 0.01)
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setattr(sys, "stdout", made)
    return made


def wait_for(terminal: Terminal, text: str) -> None:
    for _ in range(500):
        if text in terminal.getvalue():
            return
        time.sleep(0.01)
    pytest.fail(f"{text!r} was not drawn: {terminal.getvalue()!r}")


def test_all_that_is_at_work_is_named_by_what_is_done() -> None:
    start = StartProgress(shown=False)
    with start.working("Importing", "the services"):
        with start.working("Starting", "nats"), start.working("Starting", "tas"):
            assert start.text() == "Importing the services; starting nats, tas"
        assert start.text() == "Importing the services"
    assert start.text() == ""


def test_a_person_sees_what_a_start_is_at_and_lines_beside_it_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = shown_at_once(monkeypatch)
    screen = UpConsole(as_json=False)
    with screen.working("Migrating", "the database"):
        wait_for(terminal, "Migrating the database …")
        screen.notice("nats is ready after 0.1 s")
        assert "\r\x1b[K  " in terminal.getvalue(), "the line is taken away before another is printed"
        wait_for(terminal, "ready after 0.1 s\n\r\x1b[KMigrating the database …")
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_a_program_sees_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = shown_at_once(monkeypatch)
    screen = UpConsole(as_json=True)
    with screen.working("Migrating", "the database"):
        time.sleep(0.1)
    assert terminal.getvalue() == ""
