"""Ways in which a broker's files go bad, applied to a store whose server is down.

Each damage is one that disks, people and restores really cause. `server_refuses` says whether nats-server 2.15 can't
serve the store afterwards (measured), so that the embedded platform has to set it aside. The others the server mends
itself, by losing messages.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_RECORD_HEAD = 22
"""Bytes before a record's subject: 4 of its length, 8 of the sequence, 8 of the time, 2 of the subject's length."""

_HAS_HEADERS = 1 << 31
"""In a record's length: after the subject come the length of the headers (4 bytes) and the headers."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One way: what is done to the store, and whether the server refuses to serve the result."""

    do: Callable[[Path], None]
    server_refuses: bool = False


def _each(pattern: str, change: Callable[[Path], None]) -> Callable[[Path], None]:
    def damage(store: Path) -> None:
        found = [path for path in store.rglob(pattern) if path.is_file() and path.stat().st_size]
        if not found:
            msg = f"{store} holds no {pattern}: there is nothing to damage"
            raise FileNotFoundError(msg)
        for path in found:
            change(path)

    return damage


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size * 2 // 3)


def _zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _scramble(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


def _lengthen_headers(block: Path) -> None:
    """Make the headers of each message longer than its record: of all lengths, only this one no checksum covers."""
    data = bytearray(block.read_bytes())
    at = 0
    while at < len(data):
        length, subject_bytes = int.from_bytes(data[at : at + 4], "little"), data[at + 20] + 256 * data[at + 21]
        if length & _HAS_HEADERS:
            data[at + _RECORD_HEAD + subject_bytes + 3] ^= 0x10
        at += length & ~_HAS_HEADERS
    block.write_bytes(data)


def _a_file_instead(store: Path) -> None:
    shutil.rmtree(store)
    store.write_text("not a folder")


DAMAGES: dict[str, Damage] = {
    "deleted": Damage(shutil.rmtree),
    "bit-flips": Damage(_each("*.blk", _flip)),
    "long-headers": Damage(_each("*.blk", _lengthen_headers), server_refuses=True),
    "cut-tails": Damage(_each("*.blk", _cut)),
    "no-stream-files": Damage(_each("streams/*/meta.inf", _scramble)),
    "zero-consumers": Damage(_each("o.dat", _zero), server_refuses=True),
    "bad-consumers": Damage(_each("obs/*/meta.inf", _flip), server_refuses=True),
    "all-random": Damage(_each("*", _scramble), server_refuses=True),
    "no-folder": Damage(_a_file_instead, server_refuses=True),
}
"""Every damage by its name."""


def copy_store(store: Path, to: Path) -> None:
    """Copy a store, as a backup does; the server may run meanwhile, then files may vanish under the copy."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(store, to, ignore_dangling_symlinks=True, copy_function=_copy_if_there)


def restore_store(copy: Path, store: Path) -> None:
    """Put *copy* where the store of a server that is down lies."""
    shutil.rmtree(store, ignore_errors=True)
    shutil.copytree(copy, store)


def _copy_if_there(source: str, target: str) -> str:
    try:
        return shutil.copy2(source, target)
    except FileNotFoundError:
        return target
