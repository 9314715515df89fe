"""What a system's processes use: processor time, memory, priority. Standard library only, so that peers can import it.

A system is the processes below one or more roots; the first root is the client that measures. Linux only (/proc).
"""

import asyncio
import contextlib
import os
from collections import Counter
from pathlib import Path
from typing import NamedTuple

TICK = os.sysconf("SC_CLK_TCK")
SAMPLE_S = 0.5
ROLES = {
    **{
        f"towpath_{role}": role
        for role in ("orchestrator", "decider", "tas", "worker", "log_writer", "gateway", "watchdog")
    },
    "restate-server": "server",
    "peers.restate": "service",
}
"""Words of a command line, and what its process is called."""

FORK_SERVER = "towpath_embedded.processes.fork_server"
LONGEST_NAME = 15
"""Characters of the name that a process gives itself."""


class Process(NamedTuple):
    """One process: its parent, its name, and the processor time of itself and of its children that ended."""

    parent: int
    name: str
    seconds: float
    seconds_of_children: float


def role_of(words: str, own_name: str = "") -> str:
    """Name a process by its command line; one that was forked for its module, by the name that it gave itself."""
    if FORK_SERVER in words:
        return next((role for part, role in ROLES.items() if part[:LONGEST_NAME] == own_name), "other")
    if "postgres" in words:
        return "postgres"
    return next((role for part, role in ROLES.items() if part in words), "nats" if "nats" in words else "other")


def read_process(pid: int) -> Process:
    """Read one process; raise OSError when it is gone."""
    folder = Path("/proc") / str(pid)
    head, _, rest = (folder / "stat").read_text().rpartition(")")
    fields = rest.split()
    words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    own, system, of_children, system_of_children = (int(field) / TICK for field in fields[11:15])
    return Process(
        int(fields[1]), role_of(words, head.partition("(")[2]), own + system, of_children + system_of_children
    )


def tree(*roots: int) -> dict[int, Process]:
    """Return every process below *roots*, themselves included."""
    children: dict[int, list[int]] = {}
    known: dict[int, Process] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                pid = int(folder.name)
                known[pid] = read_process(pid)
                children.setdefault(known[pid].parent, []).append(pid)
    found: dict[int, Process] = {}
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, [])
        if pid in known:
            found[pid] = known[pid]
    return found


def processor_seconds(*roots: int) -> dict[str, float]:
    """Processor time of every process below *roots*, by name.

    That of a child that ended counts for its parent, so that nothing is missing in a difference.
    """
    total: dict[str, float] = {}
    for pid, process in tree(*roots).items():
        name = "client" if pid == roots[0] else process.name
        total[name] = total.get(name, 0.0) + max(process.seconds, _exact_seconds(pid)) + process.seconds_of_children
    return total


def _exact_seconds(pid: int) -> float:
    """Processor time of the threads that a process has now.

    The time of the whole process is told in hundredths of a second, which twenty database sessions may not reach in a
    short measurement. It is more than this where threads have ended.
    """
    seconds = 0.0
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                seconds += int((thread / "schedstat").read_text().split()[0]) / 1e9
    return seconds


def machine_seconds() -> float:
    """Processor time of everything on this machine since its start, of all processors together."""
    user, nice, system, _idle, _wait, interrupts, soft, stolen = (
        int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    return (user + nice + system + interrupts + soft + stolen) / TICK


def realtime(*roots: int, on: bool) -> bool:
    """Give every thread of a system real-time priority, so that other users of the machine cost no wake-ups.

    Without *roots* the system is what is below this process. False where the machine does not allow it.
    """
    policy, priority = (os.SCHED_RR, os.sched_param(1)) if on else (os.SCHED_OTHER, os.sched_param(0))
    for pid in tree(*(roots or (os.getpid(),))):
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                try:
                    os.sched_setscheduler(int(thread.name), policy, priority)
                except PermissionError:
                    return False
    return True


def memory_by_name(*roots: int) -> dict[str, int]:
    """Proportional memory (PSS, bytes) of every process below *roots* now, those of one name added up.

    Services let only root see their PSS; for others their resident memory is counted, with all that they share.
    """
    now: Counter[str] = Counter()
    for pid, process in tree(*roots).items():
        with contextlib.suppress(OSError, IndexError):
            name = "client" if pid == roots[0] else process.name
            now[name] += _memory_of(Path("/proc") / str(pid))
    return dict(now)


def _memory_of(process: Path) -> int:
    try:
        rollup = (process / "smaps_rollup").read_text()
    except PermissionError:
        return int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return int(rollup.partition("\nPss:")[2].split()[0]) * 1024


class Memory:
    """The peak of every process's proportional memory (PSS, bytes), those of one name added up."""

    def __init__(self, *roots: int) -> None:
        self.roots = roots or (os.getpid(),)
        self.peak: dict[str, int] = {}
        self.idle: dict[str, int] = {}
        self.peak_of_all = 0

    def sample(self) -> None:
        """Look once."""
        now = memory_by_name(*self.roots)
        self.idle = self.idle or now
        self.peak_of_all = max(self.peak_of_all, sum(now.values()))
        for name, used in now.items():
            self.peak[name] = max(self.peak.get(name, 0), used)

    async def watch(self) -> None:
        """Look until cancelled."""
        while True:
            self.sample()
            await asyncio.sleep(SAMPLE_S)


def thread_switches(*roots: int) -> dict[str, int]:
    """How often the threads of every process below *roots* gave up a processor or lost it, by name.

    Of the threads and processes that are there now: for differences over a time in which none ends.
    """
    total: Counter[str] = Counter()
    for pid, process in tree(*roots).items():
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                with contextlib.suppress(OSError):
                    lines = (thread / "status").read_text().splitlines()
                    found = sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
                    total["client" if pid == roots[0] else process.name] += found
    return dict(total)
