"""Attempts to get more out of a folder that may be changed: open folders of outside, and files with rights."""

import ctypes
import os
import socket
import stat
import struct
from pathlib import Path

from tests.support.escapes.attempts import FACTS, attempt, call, some


def listed(connection: socket.socket) -> str:
    """Take a descriptor, and look through it at what was not granted."""
    connection.settimeout(1)
    connection.send(b"x")
    _, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
    (folder,) = descriptors
    try:
        return some(".towpath" in os.listdir(folder))
    finally:
        os.close(folder)


def with_the_bit(path: Path) -> str:
    try:
        if not path.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID):
            raise PermissionError("the bit was dropped")
        return "whoever executes it is the worker's user"
    finally:
        path.rmdir() if path.is_dir() else path.unlink()


def new(name: str) -> Path:
    return Path(FACTS["shared"], f"{name}-{os.getpid()}")


@attempt
def descriptor_over_a_socket_in_a_granted_folder() -> str:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(f"{FACTS['shared']}/gives")
        return listed(client)


@attempt
def descriptor_over_an_abstract_socket() -> str:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\0" + FACTS["gives"])
        return listed(client)


@attempt
def descriptor_over_a_pair_of_datagrams() -> str:
    """A socket of a pair of datagrams can be given a name and another peer."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    name = new("takes")
    with one, other:
        one.bind(str(name))
        try:
            one.connect(f"{FACTS['shared']}/gives-datagrams")
            return listed(one)
        finally:
            name.unlink()


@attempt
def descriptor_over_a_pair_of_streams() -> str:
    one, other = socket.socketpair()
    other.close()
    with one:
        one.connect(f"{FACTS['shared']}/gives")
        return listed(one)


@attempt
def descriptor_over_a_pair_of_streams_that_listens() -> str:
    one, other = socket.socketpair()
    name = new("listens")
    with one, other:
        one.bind(str(name))
        try:
            one.listen()
        finally:
            name.unlink()
    return "anybody may connect"


@attempt
def set_user_id_by_chmod() -> str:
    path = new("chmod")
    path.touch()
    try:
        path.chmod(0o6755)
    except OSError:
        path.unlink()
        raise
    return with_the_bit(path)


@attempt
def set_user_id_by_fchmod() -> str:
    path = new("fchmod")
    with path.open("w") as file:
        try:
            os.fchmod(file.fileno(), 0o4755)
        except OSError:
            path.unlink()
            raise
    return with_the_bit(path)


@attempt
def set_group_id_by_fchmodat2() -> str:
    path = new("fchmodat2")
    path.touch()
    try:
        call(452, 452, -100, str(path).encode(), 0o2755, 0)
    except OSError:
        path.unlink()
        raise
    return with_the_bit(path)


@attempt
def set_user_id_of_a_new_file() -> str:
    path = new("open")
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o4755))
    return with_the_bit(path)


@attempt
def set_user_id_of_a_new_file_by_openat2() -> str:
    path = new("openat2")
    how = ctypes.create_string_buffer(struct.pack("QQQ", os.O_CREAT | os.O_WRONLY, 0o4755, 0), 24)
    os.close(call(437, 437, -100, str(path).encode(), how, 24))
    return with_the_bit(path)


@attempt
def set_user_id_of_a_file_without_a_name() -> str:
    path = new("tmpfile")
    descriptor = os.open(FACTS["shared"], os.O_TMPFILE | os.O_RDWR, 0o4755)
    try:
        os.link(f"/proc/self/fd/{descriptor}", path, follow_symlinks=True)
    finally:
        os.close(descriptor)
    return with_the_bit(path)


@attempt
def set_user_id_of_a_node() -> str:
    path = new("mknod")
    os.mknod(path, stat.S_IFREG | 0o4755)
    return with_the_bit(path)


@attempt
def set_group_id_of_a_folder() -> str:
    path = new("folder")
    path.mkdir()
    try:
        path.chmod(0o2755)
    except OSError:
        path.rmdir()
        raise
    return with_the_bit(path)
