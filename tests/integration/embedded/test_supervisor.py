"""The supervisor on real processes: small programs that answer /readyz, die, hang or refuse to start."""

import asyncio
import itertools
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from towpath_contracts.problems.registry import ProblemError
from towpath_embedded.processes.child_process import wait_exit
from towpath_embedded.processes.ports import first_choice, free_port, require_free
from towpath_embedded.processes.role_process import RoleProcess, http_status
from towpath_embedded.processes.supervisor import LONGEST_PAUSE_S, MOST_LEAVING, Supervisor
from towpath_embedded.start_hints import is_free

ANSWERS = """
import http.server, os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()
    def log_message(self, *_): pass
print("listening", flush=True)
http.server.HTTPServer(("127.0.0.1", int(os.environ["TOWPATH_HEALTH_PORT"])), Handler).serve_forever()
"""
ANSWERS_AT_A_SOCKET = ANSWERS.replace(
    'http.server.HTTPServer(("127.0.0.1", int(os.environ["TOWPATH_HEALTH_PORT"])), Handler).serve_forever()',
    """
server = http.server.HTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
server.socket.close()
server.socket = __import__("socket").socket(fileno=int(os.environ["TOWPATH_LISTENER_DESCRIPTOR"]))
server.serve_forever()
""",
)
ENDS_LATER = ANSWERS.replace(
    "class Handler",
    """
def end_later(*_):
    print("asked", flush=True)
    threading.Thread(target=end_when_told).start()
def end_when_told():
    while not os.path.exists("end"):
        time.sleep(0.01)
    os._exit(0)
signal.signal(signal.SIGUSR1, end_later)
class Handler""",
).replace("import http.server,", "import threading, time, http.server,")
FAILS = "import sys; print('no such table: canals', flush=True); sys.exit(3)"
IGNORES_THE_TERM = ANSWERS.replace("lambda *_: sys.exit(0)", "signal.SIG_IGN")


def role(
    folder: Path, name: str, program: str = ANSWERS, port: int | None = None, *, keeps_port: bool = False
) -> RoleProcess:
    return RoleProcess(
        name,
        (sys.executable, "-c", program),
        log=folder / f"{name}.log",
        environment={"PATH": os.defpath},
        port=port,
        directory=folder,
        keeps_port=keeps_port,
    )


class Told:
    """What a supervisor told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.changes = 0

    def notice(self, line: str) -> None:
        self.lines.append(line)

    def changed(self) -> None:
        self.changes += 1


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
async def supervisor(told: Told) -> AsyncIterator[Supervisor]:
    supervisor = Supervisor(told.notice, told.changed)
    yield supervisor
    await supervisor.stop([])


async def eventually(condition: Callable[[], object], timeout_s: float = 60) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - processes set no event of ours
            await asyncio.sleep(0.01)


async def test_a_killed_child_is_started_again_at_its_address(folder: Path, supervisor: Supervisor, told: Told) -> None:
    unit = role(folder, "decider")
    await supervisor.start([unit])
    first = supervisor.processes["decider"]
    port = unit.port
    supervisor.kill("decider")
    await supervisor.wait_ready(timeout_s=60)
    second = supervisor.processes["decider"]
    assert second.restarts == 1
    assert second.pid not in (None, first.pid)
    assert unit.port == port
    await eventually(lambda: len(told.lines) == 3)
    assert told.lines[0].startswith("decider is ready after")
    assert told.lines[1] == "decider was ended by SIGKILL; it is started again"
    assert told.lines[2].startswith("decider is back after")
    assert told.changes == 1


async def test_the_pause_between_starts_grows(folder: Path, supervisor: Supervisor, told: Told) -> None:
    unit = role(folder, "tas")
    await supervisor.start([unit])
    began = time.monotonic()
    for restarts in range(1, 4):
        supervisor.kill("tas")
        await eventually(lambda count=restarts: supervisor.processes["tas"].restarts == count)
        await eventually(lambda: supervisor.processes["tas"].pid is not None)
    assert 0.2 + 0.4 + 0.8 <= time.monotonic() - began < 3 * LONGEST_PAUSE_S


async def test_a_child_that_cannot_start_any_more_is_told_once_with_the_cause_that_it_gives(
    folder: Path, supervisor: Supervisor, told: Told
) -> None:
    refuses = "import os, sys\nif os.path.exists('broken'): sys.exit('towpath worker: tools.py:9: not Python')"
    await supervisor.start([role(folder, "worker", f"{refuses}\n{ANSWERS}")])
    (folder / "broken").touch()
    supervisor.kill("worker")
    await eventually(lambda: supervisor.processes["worker"].restarts == 4)
    assert told.lines[1:] == [
        "worker was ended by SIGKILL; it is started again",
        "worker ended with status 1: tools.py:9: not Python; it is started again",
    ]
    (folder / "broken").unlink()
    await eventually(lambda: len(told.lines) == 4)
    supervisor.kill("worker")
    await eventually(lambda: len(told.lines) == 5)
    assert told.lines[3].startswith("worker is back after")
    assert told.lines[4] == "worker was ended by SIGKILL; it is started again"


async def test_a_child_for_the_place_of_another_ends_where_the_change_is_given_up(
    folder: Path, supervisor: Supervisor
) -> None:
    await supervisor.start([role(folder, "worker")])
    first, second = supervisor.processes["worker"].pid, role(folder, "worker", "import time; time.sleep(60)")
    change = asyncio.create_task(supervisor.replace(second, signal.SIGUSR1))
    await eventually(lambda: second.process is not None)
    change.cancel()
    await asyncio.gather(change, return_exceptions=True)
    assert second.process is not None and second.process.poll() is not None
    assert supervisor.processes["worker"].pid == first


async def test_a_held_child_stays_down_until_it_is_released(folder: Path, supervisor: Supervisor) -> None:
    unit = role(folder, "gateway")
    await supervisor.start([unit])
    await supervisor.hold("gateway")
    await asyncio.sleep(0.5)
    assert supervisor.processes["gateway"].pid is None
    assert await http_status(unit.port, "/readyz") is None
    await supervisor.wait_ready(timeout_s=1)  # it is held, so nobody waits for it
    supervisor.release("gateway")
    await supervisor.wait_ready(timeout_s=60)
    assert await http_status(unit.port, "/readyz") == 200


async def test_a_child_is_replaced_by_another_and_does_what_it_has_to_do_as_long_as_it_takes(
    folder: Path, supervisor: Supervisor, told: Told
) -> None:
    await supervisor.start([role(folder, "worker", ENDS_LATER)])
    first, others = supervisor.processes["worker"].pid, list[int | None]()
    for number in range(MOST_LEAVING):
        await supervisor.replace(role(folder, "worker", ENDS_LATER), signal.SIGUSR1)
        others.append(supervisor.processes["worker"].pid)
        await eventually(lambda count=number + 1: (folder / "worker.log").read_text().count("asked") == count)
    assert first is not None and len({first, *others}) == MOST_LEAVING + 1
    with pytest.raises(ProblemError, match="3 former processes of worker still finish their calls"):
        await supervisor.replace(role(folder, "worker"), signal.SIGUSR1)
    assert is_running(first)
    (folder / "end").touch()
    await eventually(lambda: not any(is_running(pid) for pid in (first, *others[:-1])))
    assert supervisor.processes["worker"].pid == others[-1]
    supervisor.kill("worker")
    await eventually(lambda: supervisor.processes["worker"].restarts == 1)
    assert [line for line in told.lines if "started again" in line] == [
        "worker was ended by SIGKILL; it is started again"
    ]


async def test_a_child_stays_where_the_one_for_its_place_cannot_start_and_all_are_stopped(
    folder: Path, supervisor: Supervisor
) -> None:
    await supervisor.start([role(folder, "worker", ENDS_LATER)])
    first = supervisor.processes["worker"].pid
    with pytest.raises(ProblemError, match="no such table"):
        await supervisor.replace(role(folder, "worker", FAILS), signal.SIGUSR1)
    assert supervisor.processes["worker"].pid == first and first is not None
    await supervisor.replace(role(folder, "worker", ENDS_LATER), signal.SIGUSR1)
    second = supervisor.processes["worker"].pid
    await supervisor.stop([["worker"]])
    assert second is not None and not is_running(first) and not is_running(second)


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_a_port_that_is_kept_is_nobody_elses_while_its_process_is_down(
    folder: Path, supervisor: Supervisor
) -> None:
    unit = role(folder, "gateway", ANSWERS_AT_A_SOCKET, keeps_port=True)
    await supervisor.start([unit])
    await supervisor.hold("gateway")
    assert not is_free(unit.port)
    waiting = asyncio.create_task(http_status(unit.port, "/readyz"))
    await asyncio.sleep(0.1)
    supervisor.release("gateway")
    assert await waiting == 200
    await supervisor.hold("gateway", gracefully=True)
    assert is_free(unit.port)
    supervisor.release("gateway")
    await supervisor.wait_ready(timeout_s=60)
    await supervisor.stop([])
    assert is_free(unit.port)


async def test_a_port_to_keep_that_is_taken_is_told_or_another_is_chosen(folder: Path, supervisor: Supervisor) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        with pytest.raises(ProblemError) as refused:
            await supervisor.start([role(folder, "gateway", ANSWERS_AT_A_SOCKET, port=taken, keeps_port=True)])
        assert refused.value.problem.code == "port_busy"
        unit = role(folder, "gateway", ANSWERS_AT_A_SOCKET, keeps_port=True)
        unit.port = taken
        await supervisor.start([unit])
        assert unit.port != taken


async def test_a_child_that_can_not_start_shows_the_end_of_its_log(folder: Path, supervisor: Supervisor) -> None:
    with pytest.raises(ProblemError) as refused:
        await supervisor.start([role(folder, "decider"), role(folder, "orchestrator", FAILS)])
    problem = refused.value.problem
    assert problem.code == "service_failed"
    assert "orchestrator ended at its start" in problem.detail
    assert "no such table: canals" in problem.detail


async def test_what_is_told_of_a_failed_start_is_of_this_one_and_of_none_before(
    folder: Path, supervisor: Supervisor
) -> None:
    with pytest.raises(ProblemError, match="no such table: canals"):
        await supervisor.start([role(folder, "tas", FAILS)])
    with pytest.raises(ProblemError) as failed:
        await supervisor.start([role(folder, "tas", FAILS.replace("canals", "locks"))])
    assert "no such table: locks" in failed.value.problem.detail
    assert "canals" not in failed.value.problem.detail
    with pytest.raises(ProblemError, match="it wrote nothing into its log"):
        await supervisor.start([role(folder, "tas", "raise SystemExit(3)")])


async def test_a_stopped_child_that_ignores_the_request_is_killed(folder: Path, supervisor: Supervisor) -> None:
    unit = role(folder, "worker", IGNORES_THE_TERM)
    unit.stop_timeout_s = 0.3
    await supervisor.start([unit])
    process = unit.process
    assert process is not None
    await supervisor.stop([["worker"]])
    assert process.returncode == -signal.SIGKILL
    assert supervisor.processes == {}


async def test_children_stop_in_the_order_given(folder: Path, supervisor: Supervisor) -> None:
    units = [role(folder, name) for name in ("gateway", "decider", "tas")]
    await supervisor.start(units)
    ended: list[str] = []

    async def watch(unit: RoleProcess) -> None:
        assert unit.process is not None
        await wait_exit(unit.process)
        ended.append(unit.name)

    watches = [asyncio.create_task(watch(unit)) for unit in units]
    await supervisor.stop([["decider"], ["gateway"], ["tas"]])
    await asyncio.gather(*watches)
    assert ended == ["decider", "gateway", "tas"]
    assert all(unit.process is not None and unit.process.returncode == 0 for unit in units)


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


async def test_a_busy_port_of_nobodys_choice_is_changed(folder: Path, supervisor: Supervisor, taken_port: int) -> None:
    unit = role(folder, "log_writer")
    unit.port = taken_port
    await supervisor.start([unit])
    assert unit.port != taken_port


def test_a_busy_port_names_its_owner(taken_port: int) -> None:
    assert not is_free(taken_port)
    with pytest.raises(ProblemError) as refused:
        require_free({"--port": taken_port})
    problem = refused.value.problem
    assert problem.code == "port_busy"
    assert f"(pid {os.getpid()})" in problem.detail
    assert "--port auto" in problem.remedy


def test_a_chosen_port_is_never_one_of_outgoing_connections() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(free_port() < lowest for _ in range(50))


def test_processes_side_by_side_choose_hundreds_of_ports_before_they_meet() -> None:
    """Where two meet, one's service can't listen, and the other's answers in its place."""
    for lowest_id in (1, 4_120, 65_530, 4_194_000):
        places = sorted(first_choice(lowest_id + near) for near in range(12))
        assert min(after - before for before, after in itertools.pairwise(places)) > 900
