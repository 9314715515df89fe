"""A FUSE file system that loses what was not synced on `SIGUSR1`, as a disk does at a power cut.

Run `python -m tests.chaos.servers.lossy_disk MOUNTPOINT` as root; SIGTERM unmounts. It prints `mounted` when it is
ready.

Names are durable at once, as on a journaling file system; data and size of a file are durable once the file was
synced. It implements the kernel's protocol (fuse(4)) itself, so it needs no library. Everything is in memory.
"""

import contextlib
import ctypes
import errno
import os
import signal
import stat
import struct
import sys
import time
from dataclasses import dataclass, field
from typing import Final

MAX_WRITE: Final = 128 * 1024
BUFFER: Final = MAX_WRITE + 4096
ROOT: Final = 1
PATH_MAX: Final = 4096
BLOCKS: Final = 1 << 20
MS_NOSUID, MS_NODEV, MNT_DETACH = 2, 4, 2

LOOKUP, FORGET, GETATTR, SETATTR, SYMLINK, MKDIR, UNLINK, RMDIR, RENAME = 1, 2, 3, 4, 6, 9, 10, 11, 12
OPEN, READ, WRITE, STATFS, RELEASE, FSYNC, FLUSH, INIT, OPENDIR, READDIR = 14, 15, 16, 17, 18, 20, 25, 26, 27, 28
RELEASEDIR, FSYNCDIR, ACCESS, CREATE, INTERRUPT, DESTROY, BATCH_FORGET, FALLOCATE = 29, 30, 34, 35, 36, 38, 42, 43
RENAME2, LSEEK = 45, 46
SILENT: Final = frozenset({FORGET, BATCH_FORGET, INTERRUPT})
EMPTY: Final = frozenset({FLUSH, RELEASE, RELEASEDIR, FSYNCDIR, ACCESS, DESTROY})
FOPEN_DIRECT_IO: Final = 1
SET_MODE, SET_UID, SET_GID, SET_SIZE = 1, 2, 4, 8

IN = struct.Struct("<IIQQIIIHH")
OUT = struct.Struct("<IiQ")
ATTR = struct.Struct("<QQQQQQIIIIIIIIII")


@dataclass(eq=False, slots=True)
class LossyNode:
    """A file or folder. `kept` is what the disk holds of a file; `unsynced` the writes since, in order."""

    number: int
    mode: int
    uid: int
    gid: int
    data: bytearray = field(default_factory=bytearray)
    kept: bytearray = field(default_factory=bytearray)
    unsynced: list[tuple[int, bytes]] = field(default_factory=list)
    children: dict[bytes, "LossyNode"] = field(default_factory=dict)
    at: int = 0

    @property
    def is_folder(self) -> bool:
        """Whether names lie below it."""
        return stat.S_ISDIR(self.mode)

    def write(self, offset: int, data: bytes) -> None:
        """Write *data*; it may be forgotten until `sync`."""
        if offset > len(self.data):
            self.data.extend(bytes(offset - len(self.data)))
        self.data[offset : offset + len(data)] = data
        self.unsynced.append((offset, data))
        self.at = time.time_ns()

    def resize(self, size: int) -> None:
        """Cut or grow; it may be forgotten until `sync`."""
        del self.data[size:]
        self.data.extend(bytes(size - len(self.data)))
        self.unsynced.append((size, b""))  # an empty write stands for the new size

    def sync(self) -> None:
        """Make everything durable."""
        _replay(self.kept, self.unsynced)
        self.unsynced.clear()

    def forget(self) -> int:
        """Go back to what is durable; return how many writes are lost."""
        lost = len(self.unsynced)
        if lost:
            self.data = bytearray(self.kept)
            self.unsynced.clear()
        return lost


def _replay(kept: bytearray, writes: list[tuple[int, bytes]]) -> None:
    for offset, data in writes:
        if not data:
            del kept[offset:]
        if offset > len(kept):
            kept.extend(bytes(offset - len(kept)))
        kept[offset : offset + len(data)] = data


class FuseError(OSError):
    """The errno that the kernel gets instead of an answer."""


class LossyDisk:
    """The nodes and what the kernel may ask of them."""

    def __init__(self) -> None:
        self._next = ROOT
        self._nodes: dict[int, LossyNode] = {}
        self.root = self._make(stat.S_IFDIR | 0o755, 0, 0)
        self.answers = {
            LOOKUP: self.lookup,
            GETATTR: self.getattr,
            SETATTR: self.setattr,
            MKDIR: self.mkdir,
            UNLINK: self.unlink,
            RMDIR: self.rmdir,
            RENAME: self.rename,
            RENAME2: self.rename2,
            OPEN: self.open,
            OPENDIR: self.open,
            READ: self.read,
            WRITE: self.write,
            CREATE: self.create,
            READDIR: self.readdir,
            STATFS: self.statfs,
            FSYNC: self.fsync,
            FALLOCATE: self.fallocate,
        }

    def cut(self) -> int:
        """Lose the power: forget all that was not synced; return how many writes that were."""
        return sum(node.forget() for node in self._nodes.values())

    def _make(self, mode: int, uid: int, gid: int) -> LossyNode:
        node = LossyNode(self._next, mode, uid, gid, at=time.time_ns())
        self._nodes[node.number] = node
        self._next += 1
        return node

    def _node(self, number: int) -> LossyNode:
        try:
            return self._nodes[number]
        except KeyError:
            raise FuseError(errno.ENOENT, "") from None

    def _attr(self, node: LossyNode) -> bytes:
        size, at_s, at_ns = len(node.data), node.at // 10**9, node.at % 10**9
        times = (at_s, at_s, at_s, at_ns, at_ns, at_ns)
        owner = (node.mode, 2 if node.is_folder else 1, node.uid, node.gid, 0, 4096, 0)
        return ATTR.pack(node.number, size, (size + 511) // 512, *times, *owner)

    def _entry(self, node: LossyNode) -> bytes:
        return struct.pack("<QQQQII", node.number, 0, 0, 0, 0, 0) + self._attr(node)

    def lookup(self, number: int, body: bytes, _who: tuple[int, int]) -> bytes:
        """Find a name."""
        child = self._node(number).children.get(body.split(b"\0")[0])
        if child is None:
            raise FuseError(errno.ENOENT, "")
        return self._entry(child)

    def getattr(self, number: int, _body: bytes, _who: tuple[int, int]) -> bytes:
        """Describe a node."""
        return struct.pack("<QII", 0, 0, 0) + self._attr(self._node(number))

    def setattr(self, number: int, body: bytes, _who: tuple[int, int]) -> bytes:
        """Change size, mode or owner."""
        node = self._node(number)
        valid, _, _, size = struct.unpack_from("<IIQQ", body)
        mode, _, uid, gid = struct.unpack_from("<IIII", body, 68)
        if valid & SET_SIZE:
            node.resize(size)
        if valid & SET_MODE:
            node.mode = stat.S_IFMT(node.mode) | stat.S_IMODE(mode)
        node.uid = uid if valid & SET_UID else node.uid
        node.gid = gid if valid & SET_GID else node.gid
        return self.getattr(number, b"", _who)

    def mkdir(self, number: int, body: bytes, who: tuple[int, int]) -> bytes:
        """Make a folder."""
        mode = struct.unpack_from("<I", body)[0]
        return self._entry(self._add(number, body[8:].split(b"\0")[0], stat.S_IFDIR | stat.S_IMODE(mode), who))

    def _add(self, number: int, name: bytes, mode: int, who: tuple[int, int]) -> LossyNode:
        folder = self._node(number)
        if name in folder.children:
            raise FuseError(errno.EEXIST, "")
        node = folder.children[name] = self._make(mode, *who)
        return node

    def create(self, number: int, body: bytes, who: tuple[int, int]) -> bytes:
        """Make a file and open it."""
        mode = struct.unpack_from("<II", body)[1]
        node = self._add(number, body[16:].split(b"\0")[0], stat.S_IFREG | stat.S_IMODE(mode), who)
        return self._entry(node) + struct.pack("<QII", 0, FOPEN_DIRECT_IO, 0)

    def unlink(self, number: int, body: bytes, _who: tuple[int, int]) -> bytes:
        """Take a name away; who has the file open keeps it."""
        if self._node(number).children.pop(body.split(b"\0")[0], None) is None:
            raise FuseError(errno.ENOENT, "")
        return b""

    def rmdir(self, number: int, body: bytes, who: tuple[int, int]) -> bytes:
        """Take an empty folder away."""
        child = self._node(number).children.get(body.split(b"\0")[0])
        if child is not None and child.children:
            raise FuseError(errno.ENOTEMPTY, "")
        return self.unlink(number, body, who)

    def rename(self, number: int, body: bytes, who: tuple[int, int]) -> bytes:
        """Give a node another name."""
        return self._rename(number, struct.unpack_from("<Q", body)[0], body[8:])

    def rename2(self, number: int, body: bytes, who: tuple[int, int]) -> bytes:
        """As `rename`; flags are not supported."""
        target, flags = struct.unpack_from("<QI", body)
        if flags:
            raise FuseError(errno.EINVAL, "")
        return self._rename(number, target, body[16:])

    def _rename(self, number: int, target: int, names: bytes) -> bytes:
        old, new = names.split(b"\0")[:2]
        node = self._node(number).children.pop(old, None)
        if node is None:
            raise FuseError(errno.ENOENT, "")
        self._node(target).children[new] = node
        return b""

    def open(self, number: int, _body: bytes, _who: tuple[int, int]) -> bytes:
        """Open a file or folder; nothing is kept in the kernel's cache, or a cut would not be seen."""
        return struct.pack("<QII", 0, 0 if self._node(number).is_folder else FOPEN_DIRECT_IO, 0)

    def read(self, number: int, body: bytes, _who: tuple[int, int]) -> bytes:
        """Read a part."""
        _, offset, size = struct.unpack_from("<QQI", body)
        return bytes(self._node(number).data[offset : offset + size])

    def write(self, number: int, body: bytes, _who: tuple[int, int]) -> bytes:
        """Write a part."""
        _, offset, size = struct.unpack_from("<QQI", body)
        self._node(number).write(offset, bytes(body[40 : 40 + size]))
        return struct.pack("<II", size, 0)

    def fallocate(self, number: int, body: bytes, _who: tuple[int, int]) -> bytes:
        """Make room."""
        _, offset, length, mode = struct.unpack_from("<QQQI", body)
        node = self._node(number)
        if mode:
            raise FuseError(errno.EOPNOTSUPP, "")
        if offset + length > len(node.data):
            node.resize(offset + length)
        return b""

    def fsync(self, number: int, _body: bytes, _who: tuple[int, int]) -> bytes:
        """Make a file durable."""
        self._node(number).sync()
        return b""

    def readdir(self, number: int, body: bytes, _who: tuple[int, int]) -> bytes:
        """List names."""
        _, offset, size = struct.unpack_from("<QQI", body)
        node = self._node(number)
        entries = [(b".", node), (b"..", node), *sorted(node.children.items(), key=lambda item: item[1].number)]
        found = b""
        for place, (name, child) in list(enumerate(entries))[offset:]:
            head = struct.pack("<QQII", child.number, place + 1, len(name), stat.S_IFMT(child.mode) >> 12)
            entry = head + name + bytes(-(len(head) + len(name)) % 8)
            if len(found) + len(entry) > size:
                break
            found += entry
        return found

    def statfs(self, _number: int, _body: bytes, _who: tuple[int, int]) -> bytes:
        """Say that there is room."""
        return struct.pack("<QQQQQIIII", BLOCKS, BLOCKS, BLOCKS, 1 << 20, 1 << 20, 4096, 255, 4096, 0) + bytes(24)


def _unsupported(_number: int, _body: bytes, _who: tuple[int, int]) -> bytes:
    raise FuseError(errno.ENOSYS, "")


def _answer(disk: LossyDisk, request: bytes) -> bytes | None:
    """Return the reply to one request of the kernel, None where it wants none."""
    _, code, unique, number, uid, gid, _, _, _ = IN.unpack_from(request)
    if code in SILENT:
        return None
    body, error = b"", 0
    if code == INIT:
        major, minor = struct.unpack_from("<II", request, IN.size)
        body = struct.pack("<IIIIHHIIHH", major, min(minor, 31), 65_536, 0, 16, 12, MAX_WRITE, 1, 32, 0) + bytes(32)
    elif code not in EMPTY:
        try:
            body = disk.answers.get(code, _unsupported)(number, request[IN.size :], (uid, gid))
        except FuseError as refusal:
            error, body = -(refusal.errno or errno.EIO), b""
    return OUT.pack(OUT.size + len(body), error, unique) + body


def _print_line(line: str) -> None:
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


def serve(mountpoint: str) -> None:
    """Mount, and answer until SIGTERM or until somebody unmounts; raises OSError where it can't be mounted."""
    libc = ctypes.CDLL(None, use_errno=True)
    kernel = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={kernel},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions".encode()
    if libc.mount(b"forgetful", mountpoint.encode(), b"fuse", MS_NOSUID | MS_NODEV, options):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), mountpoint)
    disk = LossyDisk()
    ending = False

    def end(*_: object) -> None:
        nonlocal ending
        ending = True
        libc.umount2(mountpoint.encode(), MNT_DETACH)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGUSR1, lambda *_: _print_line(f"cut {disk.cut()}"))
    _print_line("mounted")
    with contextlib.suppress(OSError):
        while not ending:
            try:
                request = os.read(kernel, BUFFER)
            except InterruptedError:
                continue
            reply = _answer(disk, request)
            if reply is not None:
                with contextlib.suppress(FileNotFoundError):  # who asked was interrupted
                    os.write(kernel, reply)
    libc.umount2(mountpoint.encode(), MNT_DETACH)


if __name__ == "__main__":
    serve(sys.argv[1])
