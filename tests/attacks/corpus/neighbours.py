"""Attacks by what runs on the same machine: a program that a tool started, and who writes into the working folder."""

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path

from tests.attacks.attack import AttackWorkedError, Position, attack
from tests.attacks.target import Target
from tests.support.worker.shadowing_modules import imported, write_shadowing_modules

from towpath.tools.sandbox import refusal
from towpath_embedded.processes import child_process
from towpath_embedded.processes.role_process import inherited, module_command

WORKER_USER = "tools_1"
START_S = 60
READ_PARENT = """
import os
found = dict(os.environ)
for folder in ("self", str(os.getppid()), str(os.getsid(os.getppid()))):
    try:
        print(open(f"/proc/{folder}/environ").read())
    except OSError as error:
        print(type(error).__name__)
print(found)
"""
REACH = """
import socket
for path in PATHS:
    try:
        print("REACHED", path, len(open(path, "rb").read()))
    except OSError as error:
        print(type(error).__name__)
for port in PORTS:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        print("REACHED", port)
    except OSError as error:
        print(type(error).__name__)
"""


PROXIED = """
import os, socket, urllib.parse
proxy = urllib.parse.urlsplit(os.environ["HTTPS_PROXY"])
for place in PLACES:
    with socket.create_connection((proxy.hostname, proxy.port), 5) as client:
        client.settimeout(10)
        client.sendall(f"CONNECT {place} HTTP/1.1\\r\\nHost: {place}\\r\\n\\r\\n".encode())
        print("REACHED" if b" 200 " in client.recv(100) else "refused", place)
"""


async def _told(target: Target, code: str, *, sandboxed: bool, egress: Sequence[str] = ()) -> str:
    """Have a tool run *code*; return what it printed, or why it was not run."""
    before = len(target.effects())
    args = {"code": code, "sandboxed": sandboxed, "egress": [*egress]}
    async with target.client() as client:
        run = await target.run(client, [("desk.program", args)], "Run this program.")
    told = " ".join(target.effects()[before:])
    if not told and not (sandboxed and refusal()):
        raise RuntimeError(f"the program was not run: {run['status']}")
    return told or f"not run: {refusal()}"


@attack(Position.NEIGHBOUR_PROCESS)
async def environment_of_the_worker(target: Target) -> str:
    """Read the worker's credentials from a program that its tool started, in its own environment or its parent's."""
    told = await _told(target, READ_PARENT, sandboxed=False)
    if target.platform.nats.password(WORKER_USER) in told:
        raise AttackWorkedError("the worker's password of the broker was read")
    return "no credential in what it inherits, nor in what the system lists of its parent"


@attack(Position.NEIGHBOUR_PROCESS)
async def platform_from_a_sandbox(target: Target) -> str:
    """Read the platform's keys, and talk to its broker and gateway, from a program in a sandbox."""
    data, ports = target.platform.data, (target.platform.nats.port, int(target.url.rpartition(":")[2]))
    paths = [str(data / name) for name in ("ticket.key", "seal.key", "nats/passwords.json", "state.json")]
    told = await _told(target, f"PATHS, PORTS = {paths!r}, {ports!r}\n{REACH}", sandboxed=True)
    if "REACHED" in told:
        raise AttackWorkedError(told)
    return told


@attack(Position.NEIGHBOUR_PROCESS)
async def platform_through_the_egress_of_a_sandbox(target: Target) -> str:
    """Reach the platform's ports and a cloud's metadata from a sandbox that was granted all of this machine's ports."""
    ports = [
        target.platform.nats.port,
        *(int(url.rpartition(":")[2]) for url in (target.url, target.platform.health_url("tas"))),
    ]
    here = [f"{host}:{port}" for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]") for port in ports]
    places = [*here, "169.254.169.254:80", "2852039166:80", "10.0.0.1:443"]
    granted = ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "*:80")
    told = await _told(target, f"PLACES = {places!r}\n{PROXIED}", sandboxed=True, egress=granted)
    if "REACHED" in told:
        raise AttackWorkedError(told)
    if not refusal() and told.count("refused") != len(places):
        raise RuntimeError(f"not all were tried: {told}")
    return told


@attack(Position.NEIGHBOUR_PROCESS)
async def module_in_the_working_folder(target: Target) -> str:
    """Have the tool-access service import a `secrets.py` that lies in the folder where it is started."""
    folder = target.folder / "working"
    folder.mkdir()
    write_shadowing_modules(folder)
    ended = await asyncio.wait_for(_start_there(folder), START_S)
    if imported(folder):
        raise AttackWorkedError(f"imported: {imported(folder)}")
    return f"it ended with {ended} for want of its settings, and imported none"


async def _start_there(folder: Path) -> int | None:
    child = child_process.spawn(
        module_command("tas"),
        log=folder / "tas.log",
        environment={name: value for name, value in inherited("tas").items() if not name.startswith("TOWPATH_")},
        death_signal=signal.SIGTERM,
        directory=folder,
    )
    return await child_process.wait_exit(child)
