"""A cluster of three brokers on this machine, each a process of its own, with the accounts and users of a platform.

Routes are free of logins, since they are on the loopback. Nodes are killed, frozen and started again by their number;
what a node has stored stays. Stores lie in memory where there is room: three copies of every message cost a disk much.
"""

import asyncio
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.errors import APIError

from towpath_contracts.authority import NatsUserRights
from towpath_contracts.streams import STREAMS
from towpath_embedded.processes.ports import LOOPBACK, free_port
from towpath_embedded.servers.nats import Nats
from towpath_fabric.clock import monotonic
from towpath_fabric.nats.broker_owner import connect
from towpath_fabric.nats.stream_declaration import declare_streams
from towpath_fabric.nats.streams import ask_broker

NODES: Final = 3
IN_MEMORY: Final = Path("/dev/shm")
FORMED_S: Final = 30.0
CAUGHT_UP_S: Final = 60.0
LOOK_S: Final = 0.1


class ClusterNode(Nats):
    """One node: a server whose configuration names its routes."""

    def __init__(self, folder: Path, number: int, ports: Sequence[tuple[int, int]], **options: Any) -> None:
        self.number = number
        self._ports = ports
        super().__init__(folder, port=ports[number][0], **options)

    def configuration(self) -> str:
        """The server's configuration file."""
        own = super().configuration().replace("server_name: towpath", f"server_name: node{self.number}")
        routes = ", ".join(f'"nats://{LOOPBACK}:{port}"' for _, port in self._ports)
        listen = f"{LOOPBACK}:{self._ports[self.number][1]}"
        left = 'ping_interval: "2s", ping_max: 2'  # as deploy/systemd/nats-cluster.conf has it
        own += 'ping_interval: "2s"\nping_max: 3\n'  # and so of clients
        return f'{own}cluster {{ name: towpath, listen: "{listen}", {left}, routes: [{routes}] }}\n'


class BrokerCluster:
    """Three nodes as a context, with *users* and the passwords of *file*; without users anybody may do anything."""

    def __init__(self, folder: Path) -> None:
        self.folder = (IN_MEMORY if IN_MEMORY.is_dir() else folder) / f"towpath-cluster-{os.getpid()}-{folder.name}"
        self.ports = [(free_port(), free_port()) for _ in range(NODES)]
        self.nodes: list[ClusterNode] = []

    @property
    def url(self) -> str:
        """Every node's address, with commas between them."""
        return self.url_of(None)

    def url_of(self, user: str | None, nodes: Sequence[int] = range(NODES)) -> str:
        """Every one of *nodes*, as *user*; those that do not run yet without a login."""
        if not self.nodes:
            return ",".join(f"nats://{LOOPBACK}:{self.ports[number][0]}" for number in nodes)
        return ",".join(self.nodes[number].url(user) for number in nodes)

    async def start(self, users: Mapping[str, NatsUserRights], passwords: Path | None, **options: Any) -> None:
        """Start all nodes, and return once they have formed a cluster in which every stream has three copies."""
        for number in range(NODES):
            place = self.folder / f"node{number}"
            place.mkdir(parents=True, exist_ok=True)
            if passwords is not None:
                shutil.copy(passwords, place / "passwords.json")
            self.nodes.append(ClusterNode(place, number, self.ports, users=users, **options))
        await asyncio.gather(*(node.start() for node in self.nodes))
        end = monotonic() + FORMED_S
        while True:
            with suppress(NatsError, APIError, TimeoutError):
                async with self.deployer() as nc:
                    await declare_streams(nc, replicas=NODES)
                return
            if monotonic() > end:
                raise TimeoutError(f"three brokers formed no cluster in {FORMED_S} s; see {self.folder}")
            await asyncio.sleep(LOOK_S)

    async def __aenter__(self) -> Self:
        await self.start({}, None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """End all nodes and remove what they stored."""
        for node in self.nodes:
            self.kill(node.number)  # a frozen one, too
        await asyncio.gather(*(node.stop() for node in self.nodes))
        shutil.rmtree(self.folder, ignore_errors=True)

    @asynccontextmanager
    async def deployer(self) -> AsyncIterator[Client]:
        """A connection that may ask JetStream everything."""
        user = "deploy" if self.nodes[0]._users else None
        options = {"inbox_prefix": "_INBOX_deploy", "allow_reconnect": False, "connect_timeout": 1, "error_cb": _ignore}
        client = await connect(self.url_of(user).split(","), owner=None, **options)
        try:
            yield client
        finally:
            await client.close()

    async def leader(self, stream: str) -> int:
        """Return the number of the node that leads *stream*."""
        async with self.deployer() as nc:
            found = await ask_broker(nc, f"STREAM.INFO.{stream}")
        return int(str(found["cluster"]["leader"]).removeprefix("node"))

    async def caught_up(self) -> None:
        """Return once each stream has a leader and all of its copies are current."""
        end = monotonic() + CAUGHT_UP_S
        waiting: object = "nothing was asked"
        while monotonic() < end:
            with suppress(NatsError, APIError, TimeoutError, OSError):
                async with self.deployer() as nc:
                    states = {one.name: (await ask_broker(nc, f"STREAM.INFO.{one.name}"))["cluster"] for one in STREAMS}
                waiting = {name: state for name, state in states.items() if not _is_current(state)}
                if not waiting:
                    return
            await asyncio.sleep(LOOK_S)
        raise TimeoutError(f"not all copies are current after {CAUGHT_UP_S} s: {json.dumps(waiting)}")

    def kill(self, number: int) -> None:
        """Kill a node as a crash would."""
        self._signal(number, signal.SIGKILL)

    def freeze(self, number: int) -> None:
        """Let a node hold its connections and do nothing."""
        self._signal(number, signal.SIGSTOP)

    def resume(self, number: int) -> None:
        """Let a frozen node go on."""
        self._signal(number, signal.SIGCONT)

    async def restart(self, number: int) -> None:
        """Stop a node as an upgrade does, if it runs, and start it on what it has stored."""
        await self.nodes[number].stop()
        await self.nodes[number].start()

    def _signal(self, number: int, what: signal.Signals) -> None:
        process = self.nodes[number].process
        if process is not None and process.poll() is None:
            process.send_signal(what)


def _is_current(state: Mapping[str, Any]) -> bool:
    copies = state.get("replicas") or ()
    return bool(state.get("leader")) and len(copies) == NODES - 1 and all(one.get("current") for one in copies)


async def _ignore(_error: Exception) -> None:
    """nats-py would log it, and here nodes are lost on purpose."""
