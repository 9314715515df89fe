"""The mounts of a sandbox: what every one has, and what was granted to this one.

Data folders of platforms are emptied after all grants, so that none brings one back. Where a program may write, the
folders that such a data folder lies in are mounts of their own: those can't be renamed, so no later program finds the
keys under a name that nobody knows.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from towpath.tools.isolation.data_folders import hidden_places
from towpath.tools.isolation.granted_path import GrantedPath, open_granted

HOME: Final = "/home/sandbox"
MAX_HIDDEN: Final = 256
"""Each is a mount; a program that makes folders like data folders is not to make commands that can't be executed."""

_TEMPORARY_BYTES: Final = "268435456"  # of each folder in memory: /tmp, the home, /dev/shm
SYSTEM: Final = ("/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin")
_ETC: Final = (
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime", "timezone", "mime.types"),
    *("ssl/certs", "ssl/openssl.cnf", "pki/tls/certs", "ca-certificates", "nsswitch.conf"),
)
_ETC_OF_NETWORKS: Final = ("resolv.conf", "hosts", "services", "gai.conf")
# Files there belong to root, whom the kernel lets change them without any capability.
_PROC_OF_THE_KERNEL: Final = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi")
# What a worker of root could read there of the whole machine.
_PROC_OF_ROOT: Final = (
    *("kcore", "kmsg", "kpagecgroup", "kpagecount", "kpageflags", "pagetypeinfo", "slabinfo", "timer_list"),
    *("vmallocinfo", "keys", "key-users", "sched_debug", "latency_stats"),
)


def system_mounts(*, network: bool) -> Iterator[str]:
    """Yield the mounts that every sandbox has."""
    yield from ("--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev")
    for name in _PROC_OF_THE_KERNEL:
        yield from ("--ro-bind-try", f"/proc/{name}", f"/proc/{name}")
    for name in filter(lambda file: Path("/proc", file).exists(), _PROC_OF_ROOT):
        yield from ("--ro-bind", os.devnull, f"/proc/{name}")
    for folder in ("/tmp", HOME, "/dev/shm"):  # noqa: S108 - of the sandbox
        yield from ("--size", _TEMPORARY_BYTES, "--tmpfs", folder)
    for name in SYSTEM:
        path = Path(name)
        if path.is_symlink():
            yield from ("--symlink", os.readlink(path), name)  # noqa: PTH115 - the text itself
        elif path.exists():
            yield from ("--ro-bind", name, name)
    for name in (*_ETC, *(_ETC_OF_NETWORKS if network else ())):
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")


def open_grants(
    opened: ExitStack, program: Sequence[Path], readable: Sequence[Path], writable: Sequence[Path]
) -> tuple[list[str], list[int]]:
    """Return the words that mount what is granted, and the descriptors that these name, which *opened* closes.

    Outer folders come first: an inner one keeps what was said of it. The links of *program* are followed: what needs
    it names it by them.
    """
    wanted = {_absolute(path): (False, True) for path in program}
    wanted |= {_absolute(path): (False, False) for path in readable}
    wanted |= {_absolute(path): (True, False) for path in writable}
    grants = [
        opened.enter_context(open_granted(path, writable=may_write, follow=follow))
        for path, (may_write, follow) in sorted(wanted.items(), key=lambda item: len(item[0].parts))
    ]
    looked_through = [one for one in grants if not wanted[one.place][1]]
    hidden = sorted(set(hidden_places(grants, looked_through)))
    if len(hidden) > MAX_HIDDEN:
        raise OSError(errno.E2BIG, f"{len(hidden)} data folders of platforms are in what is granted to it")
    fixed = [opened.enter_context(open_granted(place, writable=True)) for place in _fixed(grants, hidden)]
    mounts = sorted([*grants, *fixed], key=lambda one: len(one.place.parts))
    words = [word for one in mounts for word in one.words]
    for place in hidden:
        words += ("--tmpfs", str(place)) if place.is_dir() else ("--ro-bind", os.devnull, str(place))
    return words, [one.descriptor for one in mounts]


def _fixed(grants: Sequence[GrantedPath], hidden: Sequence[Path]) -> list[Path]:
    """Return the folders that a program might rename to move what is hidden; what is granted is fixed already."""
    by_place = {one.place: one for one in grants}
    found = set()
    for one in {folder for place in hidden for folder in place.parents} - by_place.keys():
        above = next((by_place[folder] for folder in one.parents if folder in by_place), None)
        if above is not None and above.writable:
            found.add(one)
    return sorted(found)


def _absolute(path: Path) -> Path:
    """Return *path* without `..`, which would mean another folder behind a link; links in it stay."""
    return Path(os.path.normpath(path.absolute()))
