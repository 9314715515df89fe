"""Attacks by what runs on the same machine: a program that a tool started, and who writes into the working folder."""

import asyncio
import fcntl
import json
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.attacks.attack import AttackWorkedError, Position, attack, require
from tests.attacks.target import Target
from tests.support.platform.port_thief import IS_ANOTHER_USER, NOBODY, port_thief
from tests.support.worker.shadowing_modules import OPTIONAL, imported, write_shadowing_modules

from towpath.tools.sandbox import refusal
from towpath_embedded.processes import child_process
from towpath_embedded.processes.ports import free_port
from towpath_embedded.processes.role_process import inherited, module_command

WORKER_USER = "tools_1"
START_S = 60
NO_SETTINGS = 2
"""How a service ends that has not what it needs to begin: by then it has imported all that it is made of."""

SECRET = "key-that-nobody-else-may-see"
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
    require(refusal() or told.count("Error") == len(paths) + len(ports), f"not all were tried: {told}")
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
    ended = await asyncio.wait_for(_start_there(folder, module_command("tas")), START_S)
    if imported(folder):
        raise AttackWorkedError(f"imported: {imported(folder)}")
    require(ended == NO_SETTINGS, f"it ended with {ended}")
    return f"it ended with {ended} for want of its settings, and imported none"


@attack(Position.NEIGHBOUR_PROCESS)
async def module_in_a_shared_folder(target: Target) -> str:
    """Have a worker that is started in a folder where others may write import what only lies there."""
    folder = target.folder / "shared"
    folder.mkdir()
    write_shadowing_modules(folder, (*OPTIONAL, "helper"))
    (folder / "mine.py").write_text("import helper\n")
    folder.chmod(0o1777)
    (folder / "imported").touch()
    (folder / "imported").chmod(0o666)
    ended = []
    for words in (("--builtin",), ("--builtin", "mine"), ("--builtin", "./mine.py")):
        command = module_command("worker", *words, "--toolsets")
        ended.append(await asyncio.wait_for(_start_there(folder, command), START_S))
        if imported(folder):
            raise AttackWorkedError(f"{words}: imported {imported(folder)}")
    if ended != [0, 2, 2]:
        raise RuntimeError(f"the workers ended with {ended}")
    return "the built-in tools were found without the folder, and modules in it refused"


@attack(Position.NEIGHBOUR_PROCESS)
async def data_folder_planted_in_the_working_folder(target: Target) -> str:
    """Have a worker that is started beside a data folder that one planted send a real password to one's own port."""
    data = target.folder / "planted" / ".towpath"
    data.mkdir(parents=True)
    port = free_port()
    state = {
        **target.platform.describe(),
        "pid": os.getpid(),
        "nats_url": f"nats://127.0.0.1:{port}",
        "gateway_url": f"http://127.0.0.1:{port}",
    }
    (data / "state.json").write_text(json.dumps(state))
    shutil.copytree(target.platform.data / "nats", data / "nats", ignore=shutil.ignore_patterns("store", "*.ports"))
    commands = (("worker", "--builtin"), ("runs", "list"))
    with (data / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for path in (data, data / "state.json", data / "lock"):
            if IS_ANOTHER_USER:
                os.chown(path, NOBODY, NOBODY)
            else:
                path.chmod(0o777)
        async with port_thief(port) as thief:
            await asyncio.wait_for(thief.listens.wait(), START_S)
            for words in commands:
                command = (sys.executable, "-P", "-m", "towpath.cli", *words)
                ended = await asyncio.wait_for(_start_there(data.parent, command, TOWPATH_API_KEY=SECRET), START_S)
                if ended == 0:
                    raise AttackWorkedError(f"{words} took it for a platform")
    if thief.sent or thief.connections:
        raise AttackWorkedError(f"{thief.connections} connections: {thief.sent[:3]}")
    return "refused; nobody connected to the address that it names"


async def _start_there(folder: Path, command: Sequence[str], **more: str) -> int | None:
    child = child_process.spawn(
        command,
        log=folder.parent / f"{folder.name}.log",
        environment={**_without_settings(), **more},
        death_signal=signal.SIGTERM,
        directory=folder,
    )
    status = await child_process.wait_exit(child, timeout_s=START_S / 2)
    if status is None:
        await child_process.stop(child, with_signal=signal.SIGKILL, timeout_s=START_S)
    return status


def _without_settings() -> dict[str, str]:
    return {name: value for name, value in inherited("tas").items() if not name.startswith("TOWPATH_")}
