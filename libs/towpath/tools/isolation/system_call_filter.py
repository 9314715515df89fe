"""The filter of system calls for programs in a sandbox, as a classic BPF program that `bwrap --seccomp` loads.

It refuses what lets a program reach out of its namespaces or opens much of the kernel to attacks: mounts, new user
namespaces, tracing, keys, BPF, io_uring, modules, clocks, and families of sockets that no namespace holds. Unix sockets
are among these, because over one anybody outside can hand in an open folder; pairs that are connected from the start
stay. No file gets a set-user-ID or set-group-ID bit: in a folder that a program may change it would give the rights of
the worker's user to everybody. A program of another architecture than the machine's is killed, because numbers of
system calls mean other calls there.
"""

import errno
import platform
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple


class _Machine(NamedTuple):
    audit_arch: int
    denied: Sequence[int]
    clone: int
    ioctl: int
    socket: int
    socketpair: int
    modes: Sequence[tuple[int, int]]
    opens: Sequence[tuple[int, int]]


_COMMON_DENIED: Final = (425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 442, 443)
"""io_uring_setup, _enter, _register; open_tree, move_mount, fsopen, fsconfig, fsmount, fspick; pidfd_getfd;
mount_setattr, quotactl_fd: newer calls have one number everywhere."""

_MISSING: Final = (435, 437)
"""clone3, openat2. Their flags and modes are in memory, where no filter reads: they are said to be missing, and
libraries use clone and openat."""

_FCHMODAT2: Final = (452, 2)

_MACHINES: Final = {
    # ptrace, syslog, modify_ldt, pivot_root, adjtimex, chroot, acct, settimeofday, mount, umount2, swapon, swapoff,
    # reboot, iopl, ioperm, init_module, delete_module, quotactl, lookup_dcookie, clock_settime, kexec_load, add_key,
    # request_key, keyctl, unshare, perf_event_open, fanotify_init, name_to_handle_at, open_by_handle_at, clock_adjtime,
    # setns, process_vm_readv, process_vm_writev, kcmp, finit_module, kexec_file_load, bpf, userfaultfd
    "x86_64": _Machine(
        audit_arch=0xC000_003E,
        denied=(
            *(101, 103, 154, 155, 159, 161, 163, 164, 165, 166, 167, 168, 169, 172, 173, 175, 176, 179, 212, 227),
            *(246, 248, 249, 250, 272, 298, 300, 303, 304, 305, 308, 310, 311, 312, 313, 320, 321, 323),
            *_COMMON_DENIED,
        ),
        clone=56,
        ioctl=16,
        socket=41,
        socketpair=53,
        # chmod, fchmod, fchmodat, mkdir, mkdirat, mknod, mknodat, creat
        modes=((90, 1), (91, 1), (268, 2), (83, 1), (258, 2), (133, 1), (259, 2), (85, 1), _FCHMODAT2),
        opens=((2, 1), (257, 2)),
    ),
    # The same in the order of their numbers; modify_ldt, iopl and ioperm are not there.
    "aarch64": _Machine(
        audit_arch=0xC000_00B7,
        denied=(
            *(18, 39, 40, 41, 51, 60, 89, 97, 104, 105, 106, 112, 116, 117, 142, 170, 171, 217, 218, 219, 224, 225),
            *(241, 262, 264, 265, 266, 268, 270, 271, 272, 273, 280, 282, 294),
            *_COMMON_DENIED,
        ),
        clone=220,
        ioctl=29,
        socket=198,
        socketpair=199,
        # fchmod, fchmodat, mkdirat, mknodat: the others are not there.
        modes=((52, 1), (53, 2), (34, 2), (33, 2), _FCHMODAT2),
        opens=((56, 2),),
    ),
}

_NAMESPACE_FLAGS: Final = 0x7E02_0080
"""CLONE_NEW*: time, mount, cgroup, uts, ipc, user, pid, net."""

_IOCTLS: Final = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX type into a terminal."""

_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6, 16)  # the last is netlink, which names interfaces

_TYPE_OF_SOCKET: Final = 0xF
_PAIRS: Final = (socket.SOCK_STREAM, socket.SOCK_SEQPACKET)
"""One of datagrams can be given a name, and connected to others, after it was made."""

_SET_ID: Final = 0o6000
_CREATES: Final = 0x40 | 0x40_0000
"""O_CREAT, __O_TMPFILE: without these the mode of an open is not looked at, and may be anything."""

_LOAD, _RETURN, _AND = 0x20, 0x06, 0x54
_JUMP_EQUAL, _JUMP_NOT_LESS, _JUMP_ANY_BIT = 0x15, 0x35, 0x45
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16
_ALLOW, _KILL, _ERROR = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
_X32 = 0x4000_0000
"""Added to numbers of another kind of call of the same machine, which means the same calls."""


def system_call_filter(machine: str = "") -> bytes | None:
    """Return the program for *machine* (default: this one); None for one that it does not know."""
    known = _MACHINES.get(machine or platform.machine())
    if known is None:
        return None
    refused = _answer(_ERROR | errno.EPERM)
    program = [
        _step(_LOAD, _ARCH_AT),
        *_unless(_JUMP_EQUAL, known.audit_arch, _answer(_KILL)),
        _step(_LOAD, _NUMBER_AT),
        *_when(_JUMP_NOT_LESS, _X32, refused),
        *(step for number in known.denied for step in _when(_JUMP_EQUAL, number, refused)),
        *(step for number in _MISSING for step in _when(_JUMP_EQUAL, number, _answer(_ERROR | errno.ENOSYS))),
        *_block(known.clone, 0, _when(_JUMP_ANY_BIT, _NAMESPACE_FLAGS, refused), _answer(_ALLOW)),
        *_block(
            known.ioctl, 1, [step for one in _IOCTLS for step in _when(_JUMP_EQUAL, one, refused)], _answer(_ALLOW)
        ),
        *_block(
            known.socket,
            0,
            [step for one in _FAMILIES for step in _when(_JUMP_EQUAL, int(one), _answer(_ALLOW))],
            _answer(_ERROR | errno.EAFNOSUPPORT),
        ),
        *_block(
            known.socketpair,
            1,
            [
                _step(_AND, _TYPE_OF_SOCKET),
                *(step for one in _PAIRS for step in _when(_JUMP_EQUAL, int(one), _answer(_ALLOW))),
            ],
            _answer(_ERROR | errno.EOPNOTSUPP),
        ),
        *_modes(known),
        _answer(_ALLOW),
    ]
    return b"".join(program)


def _modes(known: _Machine) -> Iterator[bytes]:
    """Yield what refuses modes with a bit that changes the user or group of whoever executes the file."""
    refused = _when(_JUMP_ANY_BIT, _SET_ID, _answer(_ERROR | errno.EPERM))
    for number, argument in known.modes:
        yield from _block(number, argument, refused, _answer(_ALLOW))
    for number, flags in known.opens:
        mode = _step(_LOAD, _ARGUMENTS_AT + 8 * (flags + 1))
        looked_at = _unless(_JUMP_ANY_BIT, _CREATES, _answer(_ALLOW))
        yield from _block(number, flags, [*looked_at, mode, *refused], _answer(_ALLOW))


def _step(code: int, value: int, when: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, when, otherwise, value)


def _answer(value: int) -> bytes:
    return _step(_RETURN, value)


def _when(test: int, value: int, answer: bytes) -> list[bytes]:
    return [_step(test, value, 0, 1), answer]


def _unless(test: int, value: int, answer: bytes) -> list[bytes]:
    return [_step(test, value, 1, 0), answer]


def _block(number: int, argument: int, steps: Sequence[bytes], otherwise: bytes) -> list[bytes]:
    """Return what looks at the low half of one argument of the system call *number*, and ends with an answer."""
    inside = [_step(_LOAD, _ARGUMENTS_AT + 8 * argument), *steps, otherwise]
    return [_step(_JUMP_EQUAL, number, 0, len(inside)), *inside]
