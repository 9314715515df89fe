"""Keys from a terminal: what they do, and how the terminal is left, whatever ends the program that reads them."""

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from towpath_embedded.terminal.key_reader import LOOK_S

PROGRAM = """
import asyncio, signal, sys
from towpath_embedded.terminal.key_reader import KeyReader

def say(word):
    print(word, flush=True)

def fail():
    sys.exit("a key that fails")

async def main():
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stopping.set)
    with KeyReader(0, {"a": lambda: say("A"), "q": stopping.set, "x": fail}, lambda: say("taken")) as reader:
        say(f"reads {reader.reads}")
        await stopping.wait()
    say("ended")

asyncio.run(main())
"""
SHELL = """
import os, resource, signal, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpgrp())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
print(f"pid {pid}", flush=True)
while True:
    _, status = os.waitpid(pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        sys.exit(0)
    os.tcsetpgrp(0, os.getpgrp())
    print("stopped", flush=True)
    if sys.stdin.readline().strip() != "bg":
        os.tcsetpgrp(0, pid)
    os.kill(pid, signal.SIGCONT)
"""
"""What a shell does with a program: a group of its own in the foreground, and the terminal back where it is stopped."""

BACKGROUND = """
import contextlib, os, subprocess, sys
started = subprocess.Popen([sys.executable, "-c", sys.argv[1]], process_group=0)
print(f"pid {started.pid}", flush=True)
sys.stdin.readline()
with contextlib.suppress(OSError):  # it has ended
    os.tcsetpgrp(0, started.pid)
sys.exit(started.wait())
"""
"""What a shell does with `program &` and then `fg`: no signal tells that it is in the foreground."""

TIMEOUT_S = 30.0


@dataclass(slots=True)
class Terminal:
    """A terminal with a program on it."""

    descriptor: int
    process: subprocess.Popen[bytes]
    seen: str = ""

    def wait_for(self, text: str) -> str:
        """Return what was written up to *text*."""
        deadline = time.monotonic() + TIMEOUT_S
        while text not in self.seen:
            assert time.monotonic() < deadline, f"{text!r} was not told; told was {self.seen!r}"
            if select.select([self.descriptor], [], [], 0.1)[0]:
                self.seen += os.read(self.descriptor, 4096).decode()
        found, _, self.seen = self.seen.partition(text)
        return found

    def press(self, keys: str) -> None:
        os.write(self.descriptor, keys.encode())

    def wait_for_keys(self) -> None:
        """Return once single keys are read."""
        deadline = time.monotonic() + TIMEOUT_S
        while self.edits_lines:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    @property
    def edits_lines(self) -> bool:
        """Whether it edits lines and shows what is typed, as it does for a shell."""
        wanted = termios.ICANON | termios.ECHO
        return termios.tcgetattr(self.descriptor)[3] & wanted == wanted


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        ["setsid", "--ctty", sys.executable, "-c", SHELL, PROGRAM], stdin=theirs, stdout=theirs, stderr=theirs
    )
    found = Terminal(ours, process)
    assert found.edits_lines
    yield found
    process.kill()
    process.wait()
    os.close(ours)
    os.close(theirs)


def test_a_key_does_what_it_is_for_and_a_paste_or_a_function_key_does_nothing(terminal: Terminal) -> None:
    terminal.wait_for("reads True")
    assert not terminal.edits_lines
    for keys in ("quit\n", "\x1b[A", "zzz", "\x00"):
        terminal.press(keys)
        time.sleep(0.05)
    terminal.press("a")
    assert terminal.wait_for("A").strip() == ""  # nothing that was typed is shown
    terminal.press("q")
    terminal.wait_for("ended")
    assert terminal.edits_lines


@pytest.mark.parametrize("how", ["\x03", "\x1c", "x", signal.SIGTERM, signal.SIGHUP])
def test_the_terminal_is_as_it_was_whatever_ends_the_program(terminal: Terminal, how: str | signal.Signals) -> None:
    terminal.wait_for("pid ")
    pid = int(terminal.wait_for("\n"))
    terminal.wait_for("reads True")
    if isinstance(how, signal.Signals):
        os.kill(pid, how)
    else:
        terminal.press(how)
    terminal.process.wait(TIMEOUT_S)
    assert terminal.edits_lines


def test_it_is_looked_about_each_second_whether_the_program_is_in_the_foreground() -> None:
    assert LOOK_S == 1


def test_a_stopped_program_gives_the_terminal_back_and_takes_it_again_when_it_goes_on(terminal: Terminal) -> None:
    assert "taken" in terminal.wait_for("reads True")
    for _ in range(2):
        terminal.press("\x1a")
        terminal.wait_for("stopped")
        assert terminal.edits_lines
        terminal.press("fg\n")
        terminal.wait_for_keys()
        terminal.wait_for("fg")
        terminal.press("a")
        assert "taken" not in terminal.wait_for("A"), "it was told before"
    terminal.press("q")
    terminal.wait_for("ended")
    assert terminal.edits_lines


@pytest.mark.parametrize("then", ["fg", "bg"])
def test_a_program_that_was_stopped_at_once_goes_on_with_keys_or_ends_without(terminal: Terminal, then: str) -> None:
    """It could not give the terminal back, whose mode is the shell's meanwhile."""
    mode = termios.tcgetattr(terminal.descriptor)
    terminal.wait_for("pid ")
    pid = int(terminal.wait_for("\n"))
    terminal.wait_for("reads True")
    os.kill(pid, signal.SIGSTOP)
    terminal.wait_for("stopped")
    termios.tcsetattr(terminal.descriptor, termios.TCSANOW, mode)
    terminal.press(f"{then}\n")
    terminal.wait_for(f"{then}\r\n")
    if then == "fg":
        terminal.wait_for_keys()
        terminal.press("a")
        terminal.wait_for("A")
        terminal.press("q")
    else:
        os.kill(pid, signal.SIGTERM)
    terminal.wait_for("ended")
    assert terminal.process.wait(TIMEOUT_S) == 0
    assert terminal.edits_lines


@pytest.mark.parametrize("ends", ["in the background", "in the foreground"])
def test_a_program_in_the_background_reads_no_key_and_goes_on(ends: str) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        ["setsid", "--ctty", sys.executable, "-c", BACKGROUND, PROGRAM], stdin=theirs, stdout=theirs, stderr=theirs
    )
    background = Terminal(ours, process)
    background.wait_for("pid ")
    pid = int(background.wait_for("\n"))
    assert "taken" not in background.wait_for("reads False")
    assert background.edits_lines
    if ends == "in the foreground":
        background.press("fg\n")
        background.wait_for_keys()
        background.wait_for("taken")
        background.press("q")
    else:
        os.kill(pid, signal.SIGTERM)
    background.wait_for("ended")
    background.press("\n")
    assert process.wait(TIMEOUT_S) == 0
    os.close(theirs)
    os.close(ours)
