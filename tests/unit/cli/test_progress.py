"""What a person sees of a command that takes longer than a moment, and what a program never does."""

import asyncio
import io
import os
import pty
import sys
import time
from collections.abc import Callable
from typing import TextIO, TypeVar

import pytest

from towpath.cli.shared import progress as module
from towpath.cli.shared.command_client import CommandClient
from towpath.cli.shared.output import OutputPrinter, print_notice
from towpath.cli.shared.progress import ProgressLine, progress, progress_line, without_progress
from towpath.client.settings import ClientTarget

ERASED = "\r\x1b[K"
PATIENCE_S = 10.0

Stream = TypeVar("Stream", bound=TextIO)


class Terminal(io.StringIO):
    """A stream that a person reads."""

    def isatty(self) -> bool:
        """Say so."""
        return True


class Time:
    """A clock that goes when it is told."""

    now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(module, "monotonic", made)
    return made


def shown_on(stream: Stream, monkeypatch: pytest.MonkeyPatch, term: str = "xterm", columns: int = 80) -> Stream:
    """Make *stream* the process's stderr; within the test, since pytest sets its own before."""
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("COLUMNS", str(columns))
    return stream


def wait_for(seen: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not seen():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_says_nothing_before_a_moment_is_over_and_then_how_long_it_takes(clock: Time) -> None:
    line = ProgressLine("Verifying\x1b[31m", drawn=False)
    with line.working():
        clock.now += 0.69
        assert line.shown_text() == ""
        clock.now += 0.02
        assert line.shown_text() == "Verifying …"
        clock.now += 2.5
        line.count(1200, "lines")
        assert line.shown_text() == "Verifying … 1200 lines, 3 s"
        line.count(7, "runs", of=20)
        assert line.shown_text() == "Verifying … 7 of 20 runs, 3 s"
    assert line.shown_text() == ""


def test_counts_requests_in_a_row_as_one_wait_and_polls_as_none(clock: Time) -> None:
    line = ProgressLine("Waiting", drawn=False)
    for _ in range(5):
        with line.working():
            clock.now += 0.3
            seen = line.shown_text()
        clock.now += 0.09
    assert seen == "Waiting … 1 s"
    clock.now += 0.11
    with line.working():
        assert line.shown_text() == ""


def test_stays_away_while_something_is_printed_and_a_moment_longer(clock: Time) -> None:
    line = ProgressLine("Waiting", drawn=False)
    with line.working():
        clock.now += 5
        with line.hidden():
            clock.now += 5
        assert line.shown_text() == ""
        clock.now += 0.7
        assert line.shown_text() == "Waiting … 10 s"


def test_is_drawn_on_the_terminal_and_leaves_nothing_behind(clock: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = shown_on(Terminal(), monkeypatch)
    with progress("Verifying the audit", shown=True):
        clock.now += 3
        wait_for(lambda: terminal.getvalue() != "")
        assert terminal.getvalue() == f"{ERASED}Verifying the audit … 3 s\r"
        print_notice("by the way")
        assert terminal.getvalue().endswith(f"\r{ERASED}by the way\n")
        clock.now += 1
        wait_for(lambda: terminal.getvalue().endswith("4 s\r"))
    assert terminal.getvalue().endswith(f"4 s\r{ERASED}")


def test_cuts_what_would_not_fit_on_one_line(clock: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = shown_on(Terminal(), monkeypatch)
    with progress("審" * 100, shown=True):
        clock.now += 1
        wait_for(lambda: terminal.getvalue() != "")
    drawn = terminal.getvalue().removeprefix(ERASED).partition("\r")[0]
    assert drawn == "審" * 39 + " "  # 79 of 80 columns


def test_a_real_terminal_gets_the_line(clock: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = pty.openpty()
    os.set_blocking(near, False)
    seen = b""

    def drawn() -> bool:
        nonlocal seen
        try:
            seen += os.read(near, 1000)
        except BlockingIOError:
            return False
        return b"1 s\r" in seen

    with os.fdopen(near, "rb", 0), os.fdopen(far, "w") as stderr:
        shown_on(stderr, monkeypatch)
        with progress("Exporting", shown=True):
            clock.now += 1
            wait_for(drawn)
        seen += os.read(near, 1000)
    assert seen.decode() == f"{ERASED}Exporting … 1 s\r{ERASED}"


@pytest.mark.parametrize(("shown", "stream"), [(False, Terminal()), (True, io.StringIO())])
def test_nothing_is_drawn_for_programs(shown: bool, stream: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    shown_on(stream, monkeypatch)
    with progress("Exporting", shown=shown) as line:
        assert not line.drawn


def test_a_terminal_that_takes_nothing_away_gets_nothing(clock: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = shown_on(Terminal(), monkeypatch, "dumb")
    with progress("Exporting", shown=True) as line:
        clock.now += 1
        wait_for(lambda: line.drawn_text != "")
    assert terminal.getvalue() == ""


def test_only_an_output_for_people_has_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    shown_on(Terminal(), monkeypatch)
    with OutputPrinter("json").progress("Exporting") as line:
        assert not line.drawn
    with OutputPrinter("table").progress("Exporting") as line:
        assert line.drawn


def test_a_command_says_more_on_the_line_of_its_connection(clock: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    shown_on(Terminal(), monkeypatch)
    with progress_line("Waiting for shop", shown=True) as outer:
        with progress("Reading files", shown=True) as line:
            assert line is outer
            line.count(1, "files", of=2)
            clock.now += 1
            assert line.shown_text() == "Reading files … 1 of 2 files, 1 s"
        with outer.working():
            clock.now += 1
            assert outer.shown_text() == "Waiting for shop … 2 s"


def test_a_record_for_a_file_has_progress_though_its_connection_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = shown_on(Terminal(), monkeypatch)
    with progress_line("Waiting for shop", shown=False) as outer, progress("Exporting", shown=True) as line:
        assert line.drawn
        assert not outer.drawn
    with without_progress():
        assert terminal.getvalue() == ""


async def test_every_request_of_a_command_is_waited_for(clock: Time) -> None:
    line = ProgressLine("Waiting for shop", drawn=False)
    seen = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        clock.now += 2
        seen.append(line.shown_text())
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        target = ClientTarget(server=f"http://127.0.0.1:{port}", server_origin="given", api_key="key")
        async with CommandClient(target, line) as client:
            assert await client.request("GET", "/v1/runs") == {}
    assert seen == ["Waiting for shop … 2 s"]
    assert line.shown_text() == ""
