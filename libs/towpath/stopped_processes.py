"""Whether a process of this machine is stopped, as by SIGSTOP, Ctrl-Z or a debugger: it lives, and answers nothing."""

from pathlib import Path

PROCESSES = Path("/proc")
_STOPPED = ("T", "t")


def is_stopped(pid: int, processes: Path = PROCESSES) -> bool:
    """Return whether the process *pid* is stopped; False where that can't be known, as on other systems than Linux."""
    try:
        status = (processes / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[:1] in [[state] for state in _STOPPED]  # a name may hold parentheses
