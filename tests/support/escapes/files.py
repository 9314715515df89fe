"""Attempts to read and change files of outside."""

import ctypes
import os
import struct
from pathlib import Path

from tests.support.escapes.attempts import FACTS, attempt, call, checked, libc, read, some


@attempt
def shadow() -> str:
    return read("/etc/shadow")


@attempt
def data_folder() -> str:
    return read(f"{FACTS['data']}/ticket.key")


@attempt
def data_folder_listed() -> str:
    return str(len([*Path(FACTS["data"]).iterdir()]))


@attempt
def home() -> str:
    return some([place for place in Path(FACTS["home"]).iterdir() if str(place) != FACTS["shared"]])


@attempt
def ssh_key() -> str:
    return read(f"{FACTS['home']}/.ssh/id_ed25519")


@attempt
def symbolic_link() -> str:
    link = Path(f"/tmp/link-{os.getpid()}")
    link.symlink_to(FACTS["data"])
    try:
        return read(f"{link}/ticket.key")
    finally:
        link.unlink()


@attempt
def hard_link() -> str:
    os.link(f"{FACTS['data']}/ticket.key", f"{FACTS['data']}/hard-{os.getpid()}")
    return read(f"{FACTS['data']}/hard-{os.getpid()}")


@attempt
def parent_folders() -> str:
    return read(f"/tmp/{'../' * 20}{FACTS['data']}/ticket.key")


@attempt
def root_of_the_first_process() -> str:
    return read(f"/proc/1/root{FACTS['data']}/ticket.key")


@attempt
def root_of_the_parent() -> str:
    return read(f"/proc/{FACTS['pid']}/root{FACTS['data']}/ticket.key")


@attempt
def write_to_usr() -> str:
    path = Path(f"/usr/escape-{os.getpid()}")
    path.touch()
    path.unlink()
    return "wrote"


@attempt
def write_to_etc() -> str:
    path = Path(f"/etc/escape-{os.getpid()}")
    path.touch()
    path.unlink()
    return "wrote"


@attempt
def preload_into_others() -> str:
    return some(os.access("/etc", os.W_OK))


@attempt
def handle_of_a_file() -> str:
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    mount = ctypes.c_int()
    call(303, 264, -100, FACTS["data"].encode(), handle, ctypes.byref(mount), 0)
    return "a handle opens files past all mounts"


@attempt
def watch_outside() -> str:
    watch = checked(libc.inotify_init())
    try:
        checked(libc.inotify_add_watch(watch, FACTS["data"].encode(), 0xFFF))
    finally:
        os.close(watch)
    return "sees what changes there"
