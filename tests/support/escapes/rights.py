"""Attempts to get rights that the sandbox does not have."""

import ctypes
import os
import signal
import stat
import struct
from pathlib import Path

from tests.support.escapes.attempts import FACTS, attempt, call, checked, libc, some


@attempt
def setuid_programs() -> str:
    if libc.prctl(39, 0, 0, 0, 0) == 1:
        raise PermissionError("no program gives rights")
    return "programs with rights of their own keep them"


@attempt
def capabilities() -> str:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(("CapEff", "CapBnd")) and int(line.split()[1], 16):
            return line
    raise PermissionError("none, and none can be had")


@attempt
def own_setuid_program() -> str:
    path = Path(f"/tmp/setuid-{os.getpid()}")
    path.write_bytes(b"#!/bin/sh\n")
    try:
        os.chown(path, 0, 0)
        path.chmod(0o4755)
        if not path.stat().st_mode & stat.S_ISUID:
            raise PermissionError("the bit was dropped")
    finally:
        path.unlink()
    return "root's, with the bit"


@attempt
def become_root() -> str:
    os.setresuid(0, 0, 0)
    return f"uid {os.getuid()}"


@attempt
def mount() -> str:
    place = f"/tmp/mount-{os.getpid()}".encode()
    os.mkdir(place)
    try:
        checked(libc.mount(b"none", place, b"tmpfs", 0, None))
        checked(libc.umount2(place, 2))
    finally:
        os.rmdir(place)
    return "mounted"


@attempt
def remount_writable() -> str:
    checked(libc.mount(b"none", b"/usr", None, 0x20 | 0x1000, None))  # MS_REMOUNT | MS_BIND
    return "remounted"


@attempt
def change_root() -> str:
    if (child := os.fork()) == 0:
        try:
            os.chroot("/tmp")
            os._exit(0)
        except OSError:
            os._exit(1)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise PermissionError("chroot")
    return "changed"


@attempt
def new_user_namespace() -> str:
    if (child := os.fork()) == 0:
        os._exit(0 if libc.unshare(0x1000_0000) == 0 else 1)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise PermissionError("unshare")
    return "all rights over a namespace of its own"


@attempt
def clone_into_a_user_namespace() -> str:
    child = call(56, 220, 0x1000_0000 | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "all rights over a namespace of its own"


@attempt
def clone3() -> str:
    arguments = ctypes.create_string_buffer(struct.pack("11Q", 0x1000_0000, 0, 0, 0, signal.SIGCHLD, *([0] * 6)), 88)
    child = call(435, 435, arguments, 88)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "all rights over a namespace of its own"


@attempt
def join_a_namespace_of_outside() -> str:
    namespace = os.open(f"/proc/{FACTS['pid']}/ns/net", os.O_RDONLY)
    call(308, 268, namespace, 0)
    return "joined"


@attempt
def device_node() -> str:
    path = Path(f"/tmp/node-{os.getpid()}")
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 1))
    path.unlink()
    return "memory of the machine"


@attempt
def disks() -> str:
    return some([entry.name for entry in os.scandir("/dev") if stat.S_ISBLK(entry.stat(follow_symlinks=False).st_mode)])


@attempt
def memory_of_the_kernel() -> str:
    os.close(os.open("/proc/kcore", os.O_RDONLY))
    return "opened"
