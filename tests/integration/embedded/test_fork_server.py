"""What the fork server starts can't be told from what is executed, and outlives neither platform nor secrets."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from tests.support.waiting import eventually
from tests.support.worker.shadowing_modules import imported, write_shadowing_modules

from towpath_embedded.platform import Platform
from towpath_embedded.processes import child_process, fork_client, fork_server
from towpath_embedded.processes.child_process import ChildProcess, ProcessSpawner
from towpath_embedded.processes.role_process import module_command

WAIT_S = 90

ENDS = "from towpath_worker import wiring\nwiring.collect = lambda _loaded: "
"""Lets a worker end behind the import of its module: an exit within it is told as a fault of the file."""

PROBE = """
import ctypes, json, os, sys, threading
from pathlib import Path
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
death = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(death))
Path("facts.json").write_text(json.dumps({
    "environment": dict(os.environ),
    "directory": os.getcwd(),
    "words": sys.argv,
    "paths": sys.path,
    "main": [sys.modules["__main__"].__name__, sys.modules["__main__"].__file__],
    "leads": os.getsid(0) == os.getpgid(0) == os.getpid(),
    "parent": os.getppid(),
    "death": death.value,
    "dumpable": ctypes.CDLL(None).prctl(3, 0, 0, 0, 0),
    "listed": [line for line in Path("/proc/self/environ").read_text().split("\\0") if "hunter" in line],
    "status": {name: status[name] for name in ("SigIgn", "SigBlk", "SigCgt", "Umask", "Threads")},
    "threads": threading.active_count(),
    "streams": [os.readlink(f"/proc/self/fd/{number}") for number in range(3)],
    "open": len(os.listdir("/proc/self/fd")),
    "buffered": [sys.stdout.line_buffering, sys.stderr.line_buffering, sys.stdout.write_through],
}))
print("said by the probe")
from towpath_worker import wiring
wiring.collect = lambda _loaded: sys.exit(7)
"""

CRASH = """
from towpath_fabric.crash_points import crash_point
crash_point("tests.here")
import sys
from towpath_worker import wiring
wiring.collect = lambda _loaded: sys.exit(0)
"""

ENDING = """
import atexit, sys, threading, time
def late():
    time.sleep(0.3)
    print("the thread has ended")
threading.Thread(target=late).start()
atexit.register(print, "the callback was called")
print("the module has ended")
"""

SLEEP = "import time\nprint('up', flush=True)\ntime.sleep(600)\n"

PARENT = """
import os, signal, sys, time
from pathlib import Path
from towpath_embedded.processes import fork_client
from towpath_embedded.processes.role_process import module_command
server = fork_client.server()
assert server.ready(90)
folder = Path(sys.argv[1])
child = fork_client.spawn(module_command("worker", "probe.py"), log=folder / "log", directory=folder,
                    environment=fork_client.read_at_start(os.environ), death_signal=signal.SIGTERM)
print(server.pid, child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module", autouse=True)
def server() -> fork_client.ForkServer:
    """The fork server of this process, ready."""
    running = fork_client.server()
    assert running is not None
    assert running.ready(WAIT_S)
    return running


def worker(spawn: ProcessSpawner, folder: Path, program: str, **more: str) -> ChildProcess:
    """Start a worker with *program* as its module and *more* in its environment."""
    (folder / "probe.py").write_text(program)
    return spawn(
        module_command("worker", "probe.py", "--concurrency", "3"),
        log=folder / "worker.log",
        environment={**fork_client.read_at_start(os.environ), "PATH": os.environ["PATH"], **more},
        death_signal=signal.SIGTERM,
        directory=folder,
    )


def facts(spawn: ProcessSpawner, folder: Path, secret: str) -> dict[str, Any]:
    folder.mkdir()
    write_shadowing_modules(folder)
    child = worker(spawn, folder, PROBE, TOWPATH_NATS_PASSWORD=secret, TOWPATH_API_KEY="hunter2", TZ="Asia/Tokyo")
    assert child.wait(WAIT_S) == child.returncode == child.poll() == 7, (folder / "worker.log").read_text()
    assert (folder / "worker.log").read_text() == "said by the probe\n"
    found: dict[str, Any] = json.loads((folder / "facts.json").read_text().replace(str(folder), "FOLDER"))
    return found


def is_fork(pid: int | None) -> bool:
    return fork_server.__name__.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


def in_memory(pid: int, text: str) -> bool:
    """Search what the process may write; a text that it may only read came from a file."""
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, rights = line.split()[:2]
            begin, end = (int(part, 16) for part in span.split("-"))
            if rights.startswith("rw"):
                memory.seek(begin)
                if text.encode() in memory.read(end - begin):
                    return True
    return False


def runs(pid: int) -> bool:
    """Return whether *pid* runs; one that ended and that nobody asked about does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_forked_process_is_like_an_executed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forked, executed = (
        facts(fork_client.spawn, tmp_path / "forked", "hunter1"),
        facts(child_process.spawn, tmp_path / "executed", "hunter1"),
    )
    assert forked == executed
    monkeypatch.setattr(child_process, "_setpriv", lambda: None)  # as where there is none
    assert facts(child_process.spawn, tmp_path / "without", "hunter1") == executed
    assert forked["parent"] == os.getpid()
    assert forked["paths"][-1] == "FOLDER"
    assert forked["dumpable"] == 0
    assert forked["listed"] == []  # the environment as the system lists it
    assert "TOWPATH_NATS_PASSWORD" not in forked["environment"]  # which programs of tools would inherit
    assert forked["environment"]["TOWPATH_API_KEY"] == "hunter2"
    assert imported(tmp_path / "forked") == imported(tmp_path / "executed") == []


@pytest.mark.parametrize("spawn", [fork_client.spawn, child_process.spawn])
def test_a_core_service_imports_nothing_from_the_working_folder(spawn: ProcessSpawner, tmp_path: Path) -> None:
    write_shadowing_modules(tmp_path)
    child = spawn(
        module_command("tas"),
        log=tmp_path / "tas.log",
        environment=fork_client.read_at_start(os.environ),
        death_signal=signal.SIGTERM,
        directory=tmp_path,
    )
    assert child.wait(WAIT_S) == 2
    assert "TOWPATH_DATABASE_URL is not set" in (tmp_path / "tas.log").read_text()
    assert imported(tmp_path) == []


def test_relative_entries_of_pythonpath_are_not_for_services() -> None:
    given = {"PYTHONPATH": os.pathsep.join(("", ".", "lib", "/srv/lib")), "HOME": "/root"}
    assert fork_server.with_absolute_path(given) == {"PYTHONPATH": "/srv/lib", "HOME": "/root"}
    assert fork_server.with_absolute_path({"PYTHONPATH": "."}) == {}


def test_the_server_has_one_thread_and_knows_no_secret(server: fork_client.ForkServer, tmp_path: Path) -> None:
    secret = uuid.uuid4().hex
    facts(fork_client.spawn, tmp_path / "first", secret)
    assert [path.name for path in Path(f"/proc/{server.pid}/task").iterdir()] == [str(server.pid)]
    assert len(list(Path(f"/proc/{server.pid}/fd").iterdir())) == 4  # the three streams and the socket
    assert not in_memory(server.pid, secret)
    child = worker(fork_client.spawn, tmp_path, SLEEP, TOWPATH_NATS_PASSWORD=(other := uuid.uuid4().hex))
    try:
        assert in_memory(child.pid, other)  # so the search finds what is there
        assert not in_memory(child.pid, secret)
    finally:
        child.kill()
        child.wait(WAIT_S)


async def test_signals_and_exit_statuses_are_those_of_a_child(tmp_path: Path) -> None:
    child = worker(fork_client.spawn, tmp_path, SLEEP)
    await eventually(lambda: "up" in (tmp_path / "worker.log").read_text(), within_s=WAIT_S)
    assert child.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.01)
    child.send_signal(signal.SIGSTOP)
    await eventually(lambda: " T " in Path(f"/proc/{child.pid}/stat").read_text(), within_s=WAIT_S)
    child.kill()
    assert child.wait(WAIT_S) == -signal.SIGKILL
    child.kill()  # harmless
    assert not runs(child.pid)


@pytest.mark.parametrize(
    ("last", "status", "told"),
    [
        (ENDS + "sys.exit()", 0, ""),
        (ENDS + "sys.exit(3)", 3, ""),
        (ENDS + "sys.exit(-1)", 255, ""),
        (ENDS + "sys.exit('no such place')", 1, "no such place"),
        ("raise RuntimeError('broken')", 2, "RuntimeError: broken"),
    ],
)
def test_threads_callbacks_and_output_of_an_ended_module_are_waited_for(
    last: str, status: int, told: str, tmp_path: Path
) -> None:
    assert worker(fork_client.spawn, tmp_path, ENDING + last).wait(WAIT_S) == status
    said = (tmp_path / "worker.log").read_text()
    lines = [line for line in said.splitlines() if line.startswith("the ")]
    assert lines == ["the module has ended", "the thread has ended", "the callback was called"]
    assert told in said


def test_a_crash_point_is_found_in_the_environment_of_the_forked_process(tmp_path: Path) -> None:
    points = tmp_path / "points"
    points.mkdir()
    (points / "tests.here").write_text("")
    assert worker(fork_client.spawn, tmp_path, CRASH, TOWPATH_CRASH_POINTS=str(points)).wait(WAIT_S) == -signal.SIGKILL
    assert worker(fork_client.spawn, tmp_path, CRASH, TOWPATH_CRASH_POINTS=str(points)).wait(WAIT_S) == 0


def test_what_the_server_could_not_become_is_executed(tmp_path: Path) -> None:
    """A variable that an interpreter reads at its start, and a command that is not a service."""
    seeded = worker(fork_client.spawn, tmp_path, SLEEP, PYTHONHASHSEED="7")
    other = fork_client.spawn(
        [sys.executable, "-c", SLEEP], log=tmp_path / "other", environment={}, death_signal=signal.SIGTERM
    )
    usual = worker(fork_client.spawn, tmp_path, SLEEP)
    try:
        assert [is_fork(child.pid) for child in (seeded, other, usual)] == [False, False, True]
    finally:
        for child in (seeded, other, usual):
            child.kill()
            child.wait(WAIT_S)
    with pytest.raises(FileNotFoundError):
        fork_client.spawn(
            module_command("worker"),
            log=tmp_path / "log",
            environment=fork_client.read_at_start(os.environ),
            death_signal=signal.SIGTERM,
            directory=tmp_path / "missing",
        )


async def test_a_killed_server_is_replaced_and_its_processes_stay(folder: Path) -> None:
    async with Platform(folder, starts="fork", durable=False, workers=(), replicas={"decider": 0}) as platform:
        before = platform.processes
        assert all(is_fork(before[name].pid) for name in ("gateway", "tas", "orchestrator", "log_writer"))
        old = fork_client.server()
        assert old is not None
        os.kill(old.pid, signal.SIGKILL)
        await eventually(lambda: not old.alive(), within_s=WAIT_S)
        await again(platform, "log_writer")  # nothing waits for the new server
        await eventually(lambda: (new := fork_client.server()) is not None and new.ready(), within_s=WAIT_S)
        await again(platform, "tas")
        after = platform.processes
        assert after["gateway"] == before["gateway"]
        assert is_fork(after["tas"].pid)
        assert not is_fork(after["log_writer"].pid)
    assert not any(runs(state.pid) for state in after.values() if state.pid)


async def again(platform: Platform, name: str) -> None:
    """Have *name* killed and started again."""
    await platform.hold(name)
    assert platform.processes[name].pid is None
    platform.release(name)
    await eventually(lambda: platform.processes[name].pid is not None, within_s=WAIT_S)
    await platform.wait_ready()


async def test_nothing_outlives_a_killed_platform(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text(SLEEP)
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", PARENT, tmp_path, stdout=subprocess.PIPE)
    try:
        assert parent.stdout is not None
        pids = [int(word) for word in (await parent.stdout.readline()).split()]
        assert [is_fork(pid) for pid in pids] == [True, True]
    finally:
        parent.kill()
        await parent.wait()
    await eventually(lambda: not any(runs(pid) for pid in pids), within_s=WAIT_S)


@pytest.mark.parametrize("is_ready", [False, True])
def test_the_server_is_silent_where_the_platform_ends_at_once(is_ready: bool) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        server = subprocess.Popen(
            [sys.executable, "-P", "-m", fork_server.__name__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stderr=subprocess.PIPE,
        )
    if is_ready:  # it ends with the word of the server unread, which the server is told as a reset
        ours.recv(len(fork_server.READY), socket.MSG_PEEK)
    ours.close()
    _, printed = server.communicate(timeout=60)
    assert (server.returncode, printed) == (0, b"")


def _run_python(program: str, directory: Path) -> list[str]:
    """Return what *program* prints in an interpreter of its own: it changes what is imported and allocated."""
    command = [sys.executable, "-c", f"from towpath_embedded.processes import fork_server\n{program}"]
    environment = {**os.environ, "PYTHONPATH": str(directory)}
    ended = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=True)
    return ended.stdout.splitlines()


def test_new_objects_leave_the_pages_of_preloaded_ones_alone(tmp_path: Path) -> None:
    lines = _run_python(
        "old = [bytes(size) for _ in range(2_000) for size in (60, 200, 400)]\n"
        "pages = {id(block) >> 12 for block in old}\n"
        "kept = [block for number, block in enumerate(old) if number % 2]\n"
        "del old[:]\n"
        "fork_server.occupy_free_blocks()\n"
        "new = [bytes(size) for _ in range(100) for size in (60, 200, 400)]\n"
        "print(len(kept), sum(id(block) >> 12 in pages for block in new))",
        tmp_path,
    )
    assert lines == ["3000 0"]
