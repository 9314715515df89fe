"""What each NATS credential really may say and hear, tried on a broker: all of it, as `tests/authority/nats.yaml`.

The broker is asked, not its configuration. Every credential tries every subject there is, its own and others';
what counts is what a witness among the core services hears, and what the broker refuses. `python -m
tests.support.platform.nats_rights write` writes the file anew; read its diff.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any, Self

import nats
import yaml
from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.support.places import TESTS
from tests.support.waiting import all_sent

from towpath_contracts import rpc, streams, subjects
from towpath_contracts.authority import USERS, NatsUserRights, agent_rights, client_rights, worker_rights
from towpath_embedded.servers.nats import Nats
from towpath_embedded.servers.postgres_identity import temporary_folder

FILE = TESTS / "authority" / "nats.yaml"
HEAD = """\
# What each credential may publish so that the core services hear it, and what it may subscribe, tried on a broker with
# every subject below and many more. `worker` is whatever worker is started by hand beside an embedded platform;
# `billing` a worker's credential for toolset billing of project shop; `alice` and `anonymous` are clients, and `olga`
# one that operates runs. `agent` is whatever agent is started by hand, `critic` the credential of the agent critic of
# project shop.
# A new method, stream or right: python -m tests.support.platform.nats_rights write, and read the diff.
"""
CREDENTIALS: dict[str, NatsUserRights] = {
    **USERS,
    "billing": worker_rights("billing", "shop", ("billing",)),
    "critic": agent_rights("critic", "shop", "critic"),
    "anonymous": client_rights(subjects.ANONYMOUS),
    "alice": client_rights("alice"),
    "olga": client_rights("olga", operates=True),
}
WITNESS = "witness"
ANSWER = b"answer"
_ID = "00000000-0000-0000-0000-000000000000"
_PLACES = (("shop", "billing"), ("shop", "mail"), ("default", "billing"))
_AGENTS = (("shop", "critic"), ("shop", "poet"), ("default", "critic"))
_SOURCES = ("decider", "tas", "gateway", "watchdog", "orchestrator")
_NAMES = {*(one.name for one in streams.STREAMS), "STRANGER", "CORE", "HASH"}
_STREAM_VERBS = (
    *("CREATE", "UPDATE", "INFO", "DELETE", "PURGE", "SNAPSHOT", "RESTORE", "MSG.GET", "MSG.DELETE"),
    *("LEADER.STEPDOWN", "PEER.REMOVE"),
)


def own_inbox(user: str) -> str:
    """Where *user* hears answers."""
    account = CREDENTIALS[user].account
    role = "worker" if account.startswith("TOOLS_") else "agent" if account.startswith("AGENTS_") else user
    return f"_INBOX_client_{user}" if account.startswith("CLIENT_") else f"_INBOX_{role}"


def _consumers() -> list[tuple[str, str]]:
    found = [(one.stream, one.durable) for one in streams.CONSUMERS]
    found += [("TOOLEXEC", streams.exec_consumer(*place).durable) for place in _PLACES]
    found += [("DECIDE", streams.agent_consumer(*place).durable) for place in _AGENTS]
    return [*found, ("DECIDE", streams.decide_consumer("default").durable), ("INBOX", "stranger")]


def jetstream() -> list[str]:
    """Every kind of question to JetStream, about every stream and consumer."""
    found = ["$JS.API.INFO", "$JS.API.STREAM.LIST", "$JS.API.STREAM.NAMES", "$JS.API.ACCOUNT.PURGE.CORE"]
    for stream in [*(one.name for one in streams.STREAMS), "STRANGER"]:
        found += [f"$JS.API.STREAM.{verb}.{stream}" for verb in _STREAM_VERBS]
        found += [f"$JS.API.DIRECT.GET.{stream}", f"$JS.API.CONSUMER.LIST.{stream}", f"$JS.API.CONSUMER.NAMES.{stream}"]
    found += [f"$JS.API.DIRECT.GET.REGISTERS.{subjects.register(space, 'x')}" for space in ("providers", "stranger")]
    for stream, durable in _consumers():
        place = f"{stream}.{durable}"
        found += [f"$JS.API.CONSUMER.{verb}.{place}" for verb in ("CREATE", "DURABLE.CREATE", "INFO", "DELETE")]
        found += [f"$JS.API.CONSUMER.MSG.NEXT.{place}", f"$JS.API.CONSUMER.PAUSE.{place}"]
        found += [f"$JS.ACK.{place}.1.2.3.4.5", f"$JS.ACK._.HASH.{place}.1.2.3.4.5.6", f"$JS.FC.{place}.x"]
        found.append(f"$JS.ACK.STRANGER.stranger.{place}.1.2.3")  # of another consumer, whatever it ends with
    return found


def spoken() -> list[str]:
    """Every subject that anybody speaks on, and other people's places to listen."""
    found = [method.subject for method in rpc.METHODS]
    for place in _PLACES:
        found += [subjects.for_toolset(method.subject, *place) for method in rpc.TOOLSET_METHODS]
        found += [subjects.tool_exec(*place), subjects.log_tool(*place), subjects.tool_confirm(*place, "x")]
        found.append(f"tool.cancel.{place[0]}.{place[1]}.{_ID}")
    for place in _AGENTS:
        pool = subjects.agent_pool(*place)
        found += [subjects.for_agent(method.subject, *place) for method in rpc.AGENT_METHODS]
        found += [subjects.agent_inbox(pool, _ID), subjects.decide(pool), f"run.inbox.{pool}.{_ID}"]
    verbs = ("submit", "enqueue", "get", "events", "cancel", "pause", "resume", "note", "gate", "confidence", "steer")
    found += [f"task.{verb}.{caller}" for verb in verbs for caller in ("anonymous", "alice", "bob", "olga")]
    found += [f"task.live.{caller}.{_ID}" for caller in ("anonymous", "local", "alice", "bob")]
    found += [f"run.inbox.{source}.{_ID}" for source in (*_SOURCES, subjects.AGENT)]
    found += [subjects.TASK_SUBMIT_ANONYMOUS, subjects.TOOL_REQUEST, subjects.TOOL_OUTCOME, subjects.LOG_LLM_CALL]
    found += [subjects.register("providers", "x"), subjects.register("stranger", "x")]
    found += [subjects.decide("default"), f"run.event.{_ID}", f"run.tokens.{_ID}", "svc.tas.stranger", "stranger"]
    return found + [f"{own_inbox(user)}.x" for user in CREDENTIALS] + ["_INBOX.x", "_R_.x.y", f"_INBOX_{WITNESS}.x"]


def system() -> list[str]:
    """What only the broker's own account may ask."""
    asked = ("SERVER.PING", "SERVER.PING.CONNZ", "USER.INFO", "ACCOUNT.PING.CONNZ", "ACCOUNT.CORE.CONNZ")
    return [*(f"$SYS.REQ.{one}" for one in asked), "$SYS.REQ.CLAIMS.UPDATE", "$SYS.ACCOUNT.CORE.CONNECT"]


WIDE = (
    ">",
    "*",
    "*.>",
    "_INBOX.>",
    "_INBOX_tas.>",
    "_R_.>",
    "$SYS.>",
    "$JS.>",
    "$JS.EVENT.ADVISORY.>",
    "svc.>",
    "run.>",
    "task.>",
    "task.live.*.*",
    "task.live.alice.*",
    "task.live.anonymous.*",
)
"""Subscriptions that would hear what is not theirs."""


class Trial:
    """One credential on a broker, and a witness among the core services."""

    def __init__(self, server: Nats, user: str) -> None:
        self._server = server
        self.user = user
        self.refused: set[str] = set()
        self.heard: list[tuple[str, bytes]] = []
        self.own: list[tuple[str, bytes]] = []

    async def __aenter__(self) -> Self:
        self.witness: Client = await nats.connect(self._server.url(WITNESS), inbox_prefix=b"_INBOX_witness.w")
        await self.witness.subscribe(">", cb=self._witnessed)
        await all_sent(self.witness)
        prefix = f"{own_inbox(self.user)}.me".encode()
        self.nc: Client = await nats.connect(self._server.url(self.user), error_cb=self._note, inbox_prefix=prefix)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.nc.close()
        await self.witness.close()

    async def _witnessed(self, message: Msg) -> None:
        self.heard.append((message.subject, message.data))
        if message.data == b"question" and message.reply:
            await self.witness.publish(message.reply, ANSWER)

    async def _note(self, error: Exception) -> None:
        self.refused.add(str(error).rpartition(' to "')[2].rstrip('"'))

    async def settle(self) -> None:
        """Return when everything that was said has been heard or refused."""
        for connection in (self.nc, self.witness, self.nc, self.witness):
            await all_sent(connection)

    def allowed(self, tried: list[str]) -> list[str]:
        """Return what of *tried* the broker has not refused; it names subjects in small letters."""
        return [subject for subject in tried if subject.lower() not in self.refused]

    async def say(self, tried: list[str]) -> list[str]:
        """Publish on each of *tried* and return what was let through."""
        self.refused.clear()
        for subject in tried:
            await self.nc.publish(subject, b"said")
        await self.settle()
        return self.allowed(tried)

    async def listen(self, tried: list[str]) -> list[str]:
        """Subscribe to each of *tried* and return what was let through."""
        self.refused.clear()

        async def hear(message: Msg) -> None:
            self.own.append((message.subject, message.data))

        for subject in tried:
            await self.nc.subscribe(subject, cb=hear)
        await self.settle()
        return self.allowed(tried)


def broker(folder: Path) -> Nats:
    """A broker, not yet started, with every credential and a witness that may do anything in CORE."""
    everything = NatsUserRights(publish=(">",), subscribe=(">",))
    return Nats(folder / "nats", users={**CREDENTIALS, WITNESS: everything})


async def rights(server: Nats) -> dict[str, Any]:
    """Return what every credential may publish and subscribe, as the file has it."""
    found: dict[str, Any] = {}
    for user, credential in CREDENTIALS.items():
        async with Trial(server, user) as trial:
            said = await trial.say([*spoken(), *jetstream(), *system()])
            reached = {subject for subject, data in trial.heard if data == b"said"}
            heard = await trial.listen([*spoken(), *jetstream(), *WIDE])
        found[user] = {"account": credential.account, "publish": told(said), "subscribe": told(heard)}
        assert reached == set(said), f"{user}: {reached ^ set(said)}"  # what is let through is heard, nothing else
    return found


def told(allowed: list[str]) -> dict[str, Any]:
    """Return *allowed* as people read it: questions to JetStream by verb, `all` where none is left out."""
    every, found = _by_verb(jetstream()), _by_verb(allowed)
    return {verb: "all" if places == every.get(verb) else places for verb, places in sorted(found.items())}


def _by_verb(given: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for subject in sorted(set(given)):
        tokens = subject.split(".")
        words = [token for token in tokens[2:] if token.isupper() and token not in _NAMES]
        at = 2 + len(words) if subject.startswith("$JS.API.") else 2 if subject.startswith("$JS.") else 0
        verb = ".".join(tokens[:at]) or "subjects"
        found.setdefault(verb, []).append(".".join(tokens[at:]) or "itself")
    return found


def written() -> dict[str, Any]:
    """Return what the file says."""
    loaded: dict[str, Any] = yaml.safe_load(FILE.read_text("utf-8"))
    return loaded


async def _write() -> None:
    with temporary_folder() as folder:
        server = broker(folder)
        await server.start()
        try:
            found = await rights(server)
        finally:
            await server.stop()
    FILE.write_text(HEAD + yaml.safe_dump(found, sort_keys=False, width=110), "utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["write"]:
        sys.exit("usage: python -m tests.support.platform.nats_rights write")
    asyncio.run(_write())
