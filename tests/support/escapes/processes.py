"""Attempts to reach other processes, and to use up the machine."""

import contextlib
import ctypes
import fcntl
import mmap
import os
import resource
import signal
from pathlib import Path

from tests.support.escapes.attempts import FACTS, attempt, call, checked, libc, outside_is_seen, some


@attempt
def environment_of_the_parent() -> str:
    return some("ESCAPE_CANARY" in Path(f"/proc/{FACTS['pid']}/environ").read_text("utf-8", "replace"))


@attempt
def environment_of_any_process() -> str:
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdigit() and b"ESCAPE_CANARY" in (process / "environ").read_bytes():
                return process.name
    raise PermissionError("no process has it")


@attempt
def commands_of_others() -> str:
    return some(outside_is_seen())


@attempt
def memory_of_the_parent() -> str:
    os.close(os.open(f"/proc/{FACTS['pid']}/mem", os.O_RDONLY))
    return "opened"


@attempt
def trace() -> str:
    call(101, 117, 0x4206, FACTS["pid"], 0, 0)  # PTRACE_SEIZE
    return "traced"


@attempt
def read_memory_of_another_process() -> str:
    buffer = ctypes.create_string_buffer(8)
    one = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
    other = (ctypes.c_void_p * 2)(FACTS["address"], 8)
    call(310, 270, FACTS["pid"], one, 1, other, 1, 0)
    return "read"


@attempt
def signal_outside() -> str:
    os.kill(FACTS["pid"], 0)
    return some(outside_is_seen())


@attempt
def file_of_another_process() -> str:
    descriptor = checked(libc.syscall(434, FACTS["pid"], 0))
    call(438, 438, descriptor, 0, 0)
    return "took a file of it"


@attempt
def priority_of_others() -> str:
    before = os.getpriority(os.PRIO_PROCESS, FACTS["pid"])
    if not outside_is_seen():
        raise ProcessLookupError
    os.setpriority(os.PRIO_PROCESS, FACTS["pid"], before)
    return "set"


@attempt
def limits_of_others() -> str:
    if not outside_is_seen():
        raise ProcessLookupError
    resource.prlimit(FACTS["pid"], resource.RLIMIT_CORE, resource.prlimit(FACTS["pid"], resource.RLIMIT_CORE))
    return "set"


@attempt
def more_processes_than_allowed() -> str:
    children = []
    try:
        for _ in range(FACTS["processes"]):
            if (child := os.fork()) == 0:
                signal.pause()
                os._exit(0)
            children.append(child)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return f"{len(children)} processes"


@attempt
def more_memory_than_allowed() -> str:
    mmap.mmap(-1, FACTS["memory"], flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    return f"{FACTS['memory']} bytes"


@attempt
def more_disk_than_allowed() -> str:
    path = Path(f"/tmp/large-{os.getpid()}")
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, FACTS["disk"])
    finally:
        path.unlink()
    return f"{FACTS['disk']} bytes"


@attempt
def more_files_than_allowed() -> str:
    files = []
    try:
        for _ in range(FACTS["files"]):
            files.append(os.open("/dev/null", os.O_RDONLY))
    finally:
        for file in files:
            os.close(file)
    return f"{len(files)} files"


@attempt
def inherited_descriptors() -> str:
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{name}")
            if int(name) > 2 and "/proc/" not in target:
                return f"{name}: {target}"
    raise PermissionError("none but the three streams")


@attempt
def secrets_in_the_own_environment() -> str:
    return some("ESCAPE_CANARY" in os.environ)


@attempt
def typing_into_the_terminal() -> str:
    terminal = os.open("/dev/tty", os.O_RDWR)
    fcntl.ioctl(terminal, 0x5412, b"\n")
    return "typed"


@attempt
def typing_into_a_pseudo_terminal() -> str:
    _, slave = os.openpty()
    fcntl.ioctl(slave, 0x540E, 0)  # TIOCSCTTY needs a session leader
    fcntl.ioctl(slave, 0x5412, b"x")
    return "typed"
