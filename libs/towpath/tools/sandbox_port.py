"""Opens the one port that a sandbox with egress has: a socket that listens in its network and is accepted outside.

The sandbox waits before its program until that is done. A process of the worker's own joins its network, listens
there, and hands the socket out, which belongs to that network for as long as it lives. So nothing inside relays, and
no file, socket or descriptor of the way out is in the sandbox: only what listens at its loopback. While it waits,
bubblewrap does not yet bind it to the life of the worker: the process that joins ends it where the worker goes away.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from io import FileIO
from typing import Final

PORT: Final = 3128
"""The usual one of a proxy; in a network of its own nothing else has it."""

_PROXY: Final = f"http://127.0.0.1:{PORT}"
PROXY_ENVIRONMENT: Final = {
    **{name: _PROXY for upper in ("HTTP_PROXY", "HTTPS_PROXY") for name in (upper, upper.lower())},
    **dict.fromkeys(("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"), ""),
}

_OPEN_S: Final = 10.0
_SANDBOX_ENDED: Final = 3
# It acts as who owns the sandbox, which may be nobody where root runs the worker. The number of the namespace is
# compared, so that another process which got the same id is left alone. Where the worker goes away and bubblewrap was
# killed before it told, its first process waits for a word that never comes: who still has that pipe is ended. Calls
# and numbers are those of Linux: NS_GET_USERNS, CLONE_NEWUSER, CLONE_NEWNET, and IP_FREEBIND, since the loopback may
# not be up yet.
_JOIN: Final = """
import ctypes, fcntl, json, os, select, signal, socket, sys
told, opens, channel, port = map(int, sys.argv[1:])
def tells(process):
    for one in os.listdir(f"/proc/{process}/fd"):
        place = f"/proc/{process}/fd/{one}"
        if os.readlink(place) == pipe and os.lstat(place).st_mode & 0o200:
            return True
    return False
text, alone = b"", False
while not text.rstrip().endswith(b"}"):
    ready = select.select([told] if alone else [told, channel], [], [], 1 if alone else None)[0]
    if told in ready:
        piece = os.read(told, 4096)
        if not piece:
            sys.exit(3)
        text += piece
    elif not alone:
        alone = True
    else:
        pipe = os.readlink(f"/proc/self/fd/{told}")
        for process in map(int, filter(str.isdigit, os.listdir("/proc"))):
            try:
                held = os.pidfd_open(process)
                if tells(process):
                    signal.pidfd_send_signal(held, signal.SIGKILL)
                os.close(held)
            except OSError:
                continue
        sys.exit(3)
sandbox = json.loads(text)
process = sandbox["child-pid"]
owner = os.stat(f"/proc/{process}")
if owner.st_uid != os.geteuid():
    os.setgroups([])
    os.setresgid(*[owner.st_gid] * 3)
    os.setresuid(*[owner.st_uid] * 3)
held = os.pidfd_open(process)
network = os.open(f"/proc/{process}/ns/net", os.O_RDONLY)
if os.fstat(network).st_ino != sandbox["net-namespace"]:
    sys.exit("this is another process")
libc = ctypes.CDLL(None, use_errno=True)
for place, kind in ((fcntl.ioctl(network, 0xB701), 0x1000_0000), (network, 0x4000_0000)):
    if libc.setns(place, kind):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
listener = socket.socket()
listener.setsockopt(socket.IPPROTO_IP, 15, 1)
listener.bind(("127.0.0.1", port))
listener.listen(64)
worker = socket.socket(fileno=channel)
worker.settimeout(15)
try:
    socket.send_fds(worker, [b"x"], [listener.fileno(), held])
    print(flush=True)
    taken = worker.recv(1)
except OSError:
    taken = b""
if taken:
    os.write(opens, b"x")
else:
    signal.pidfd_send_signal(held, signal.SIGKILL)
"""


@dataclass(frozen=True, slots=True)
class OpenedSandbox:
    """A sandbox whose program runs: what listens in it, and its first process, with which everything in it ends."""

    listener: socket.socket
    first_process: int

    def end(self) -> None:
        """End all that is left in it: who kills bubblewrap just as the program starts does not reach that."""
        try:
            signal.pidfd_send_signal(self.first_process, signal.SIGKILL)
        except ProcessLookupError:
            pass
        finally:
            os.close(self.first_process)


@dataclass(frozen=True, slots=True)
class SandboxGate:
    """Two pipes of a sandbox that waits: what it tells of itself, and what lets it go on."""

    told: FileIO
    tells: FileIO
    waits: FileIO
    opens: FileIO

    @property
    def words(self) -> tuple[str, ...]:
        """What bubblewrap is told."""
        return ("--info-fd", str(self.tells.fileno()), "--block-fd", str(self.waits.fileno()))

    @property
    def descriptors(self) -> tuple[int, int]:
        """What it inherits, and closes before its program."""
        return (self.tells.fileno(), self.waits.fileno())

    @contextlib.asynccontextmanager
    async def joining(self) -> AsyncGenerator["SandboxJoining", None]:
        """Start the process that joins, for a sandbox that is started in the block.

        It comes first, in a session of its own: it holds what the sandbox waits for also when the worker dies, and ends
        a sandbox that nobody has taken over. In the end that is waited for.
        """
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                inherited = (self.told.fileno(), self.opens.fileno(), theirs.fileno())
                helper = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-I", "-S", "-c", _JOIN, *map(str, inherited), str(PORT)),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    env={},
                    pass_fds=inherited,
                    start_new_session=True,
                )
            try:
                yield SandboxJoining(self, helper, ours)
            finally:
                self.tells.close()  # first: who has the other end once the socket is closed is ended
                ours.close()
                await _ended(helper)


@dataclass(frozen=True, slots=True)
class SandboxJoining:
    """The process that joins a sandbox, and the socket over which it hands out what it opens."""

    gate: SandboxGate
    helper: asyncio.subprocess.Process
    ours: socket.socket

    async def open(self) -> OpenedSandbox | None:
        """Open the port and let the program start; None where the sandbox has ended by itself.

        Raises OSError where it can't be had; the program has not started then, and the sandbox must be ended.
        """
        self.gate.tells.close()  # so that the end of the sandbox is seen
        with contextlib.ExitStack() as held:
            try:
                async with asyncio.timeout(_OPEN_S):
                    opened = await self._handed_over(held)
                    _, said = await self.helper.communicate()
            except TimeoutError as error:
                raise OSError(f"its network was not joined within {_OPEN_S:g} s") from error
            if self.helper.returncode == _SANDBOX_ENDED:
                return None
            if opened is None or self.helper.returncode != 0:
                told = said.decode("utf-8", "replace").strip().rpartition("\n")[2][-300:]
                raise OSError(f"its network can't be joined: {told}")
            held.pop_all()
            return opened

    async def _handed_over(self, held: contextlib.ExitStack) -> OpenedSandbox | None:
        """Take what was opened, and say so; None where it has failed. *held* closes it again."""
        assert self.helper.stdout is not None
        if not await self.helper.stdout.readline():
            return None
        _, (descriptor, first_process), _, _ = socket.recv_fds(self.ours, 1, 2)
        opened = OpenedSandbox(socket.socket(fileno=descriptor), first_process)
        held.callback(opened.end)
        held.enter_context(opened.listener)
        opened.listener.setblocking(False)
        self.ours.send(b"x")
        return opened


@contextlib.contextmanager
def sandbox_gate() -> Iterator[SandboxGate]:
    """Make the pipes of a sandbox, and close them in the end."""
    with contextlib.ExitStack() as ends:
        numbers = (*os.pipe(), *os.pipe())
        told, tells, waits, opens = (
            ends.enter_context(FileIO(number, mode)) for number, mode in zip(numbers, ("r", "w", "r", "w"), strict=True)
        )
        yield SandboxGate(told, tells, waits, opens)


async def _ended(helper: asyncio.subprocess.Process) -> None:
    try:
        async with asyncio.timeout(_OPEN_S):
            await helper.wait()
    except TimeoutError:
        pass
    finally:
        if helper.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                helper.kill()
            await helper.wait()
