"""A program that a tool runs ends with the call, together with everything it has started."""

import asyncio
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest
from tests.support.waiting import eventually

from towpath import ToolContext, ToolError, run_process

FAMILY = """
import os, signal, subprocess, sys, time
place, deaf = sys.argv[1], sys.argv[2] == "deaf"
if deaf:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "300"])
open(place + ".new", "w").write(f"{os.getpid()} {child.pid}")
os.rename(place + ".new", place)
time.sleep(300)
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def family(folder: Path) -> list[int]:
    """The program that was started and the program that it started."""
    return [int(pid) for pid in (folder / "pids").read_text().split()]


async def test_a_program_gives_back_how_it_ended() -> None:
    result = await run_process(sys.executable, "-c", "print(input()[::-1]); exit(3)", input=b"hello\n")
    assert (result.returncode, result.text, result.truncated) == (3, "olleh\n", False)
    with pytest.raises(ToolError, match="process_failed"):
        await run_process(sys.executable, "-c", "exit(3)", check=True)
    with pytest.raises(ToolError, match="process_not_found"):
        await run_process("/no/such/program")


async def test_a_program_that_cant_be_started_says_why(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"no program")
    (tmp_path / "broken").write_bytes(b"\x7fELF nothing")
    (tmp_path / "broken").chmod(0o755)
    attempts: list[tuple[str, tuple[str | Path, ...]]] = [
        ("process_not_permitted", (tmp_path / "data",)),
        ("process_not_started", (tmp_path / "broken",)),  # ENOEXEC
        ("process_not_started", (sys.executable, "x" * 4_000_000)),  # E2BIG
        ("process_not_found", (tmp_path / "data" / "below",)),
    ]
    for code, command in attempts:
        with pytest.raises(ToolError) as raised:
            await run_process(*command)
        assert raised.value.code == code, command
    shutil.copy("/bin/true", tmp_path / "written")
    with (tmp_path / "written").open("ab"), pytest.raises(ToolError, match="process_not_started"):  # ETXTBSY
        await run_process(tmp_path / "written")


async def test_a_program_does_not_inherit_what_the_worker_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_NATS_PASSWORD", "secret")
    result = await run_process(sys.executable, "-c", "import os; print(sorted(os.environ))")
    assert "TOWPATH" not in result.text and "PATH" in result.text


async def test_what_a_program_prints_has_a_limit_and_does_not_stop_it() -> None:
    code = "import sys; sys.stdout.write('x' * 3_000_000); sys.stderr.write('done')"
    result = await run_process(sys.executable, "-c", code, max_output_bytes=1_000)
    assert (result.returncode, len(result.stdout), result.stderr, result.truncated) == (0, 1_000, b"done", True)
    usual = await run_process(sys.executable, "-c", code)
    assert (len(usual.stdout), usual.truncated) == (1024 * 1024, True)


@pytest.mark.parametrize("manner", ["polite", "deaf"])
async def test_a_cancelled_call_ends_the_whole_process_group(folder: Path, manner: str) -> None:
    command = (sys.executable, "-c", FAMILY, str(folder / "pids"), manner)
    call = asyncio.create_task(run_process(*command, grace_s=0.3))
    await eventually((folder / "pids").exists)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await eventually(lambda: not any(alive(pid) for pid in family(folder)))


async def test_a_second_cancel_spares_nothing(folder: Path) -> None:
    call = asyncio.create_task(run_process(sys.executable, "-c", FAMILY, str(folder / "pids"), "deaf", grace_s=60))
    await eventually((folder / "pids").exists)
    for _ in range(2):
        call.cancel()
        await asyncio.sleep(0.1)
    with pytest.raises(asyncio.CancelledError):
        await call
    await eventually(lambda: not any(alive(pid) for pid in family(folder)))


async def test_the_time_of_a_call_is_the_time_of_its_program(folder: Path) -> None:
    context = ToolContext(deadline_s=time.monotonic() + 1.5)
    with pytest.raises(ToolError, match="process_timeout"):
        await context.run(sys.executable, "-c", FAMILY, str(folder / "pids"), "polite")
    await eventually(lambda: not any(alive(pid) for pid in family(folder)))


async def test_children_that_outlive_the_program_end_with_it(folder: Path) -> None:
    code = "import subprocess; c = subprocess.Popen(['sleep', '300'], stdout=-3, stderr=-3); print(c.pid)"
    result = await run_process(sys.executable, "-c", code)
    await eventually(lambda: not alive(int(result.text)))
    assert os.getpgrp() == os.getpgid(0), "and this process was not signalled"
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN
