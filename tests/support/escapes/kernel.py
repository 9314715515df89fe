"""Attempts to change or look into the kernel."""

import ctypes
import errno
import os
import socket
import struct
import time

from tests.support.escapes.attempts import FACTS, attempt, call, some, written


@attempt
def core_pattern() -> str:
    return written("/proc/sys/kernel/core_pattern")


@attempt
def kernel_settings() -> str:
    return written("/proc/sys/vm/overcommit_memory")


@attempt
def system_requests() -> str:
    return written("/proc/sysrq-trigger")


@attempt
def devices_of_the_kernel() -> str:
    return str(len(os.listdir("/sys/kernel")))


@attempt
def control_groups() -> str:
    return str(len(os.listdir("/sys/fs/cgroup")))


@attempt
def score_of_the_memory_killer() -> str:
    return written(f"/proc/{FACTS['pid']}/oom_score_adj")


@attempt
def keys_of_the_user() -> str:
    call(248, 217, b"user", b"escape", b"x", 1, -4)
    return "added a key"


@attempt
def bpf() -> str:
    attributes = ctypes.create_string_buffer(struct.pack("IIIII", 1, 4, 4, 1, 0) + bytes(44))
    os.close(call(321, 280, 0, attributes, 64))
    return "made a map"


@attempt
def performance_events() -> str:
    attributes = ctypes.create_string_buffer(struct.pack("IIQ", 1, 128, 0) + bytes(112))
    os.close(call(298, 241, attributes, 0, -1, -1, 0))
    return "counts"


@attempt
def page_faults_of_user_programs() -> str:
    os.close(call(323, 282, 1))  # UFFD_USER_MODE_ONLY
    return "opened"


@attempt
def io_uring() -> str:
    os.close(call(425, 425, 1, ctypes.create_string_buffer(120)))
    return "a queue past this filter"


@attempt
def modules() -> str:
    try:
        call(175, 105, b"", 0, b"")
    except OSError as error:
        if error.errno in {errno.ENOEXEC, errno.EINVAL}:
            return "it was only no module"
        raise
    return "loaded"


@attempt
def log_of_the_kernel() -> str:
    call(103, 116, 10, 0, 0)
    return "read"


@attempt
def set_the_time() -> str:
    """Set it to what it is: the control must leave the clock alone."""
    clock = struct.pack("qq", *divmod(time.time_ns(), 10**9))
    call(227, 112, 0, ctypes.create_string_buffer(clock))
    return "set"


@attempt
def name_of_the_machine() -> str:
    name = socket.gethostname()
    if name != FACTS["hostname"]:
        raise PermissionError("has a name of its own")
    socket.sethostname(name)
    return "set"


@attempt
def memory_maps_of_the_kernel() -> str:
    names = ("vmallocinfo", "slabinfo", "kpageflags", "timer_list", "keys")
    return some(next((name for name in names if os.access(f"/proc/{name}", os.R_OK) and first_byte(name)), ""))


def first_byte(name: str) -> bytes:
    with open(f"/proc/{name}", "rb", buffering=0) as file:
        return file.read(8)
