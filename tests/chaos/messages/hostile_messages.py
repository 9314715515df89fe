"""Hostile messages on every subject, by every credential that may publish there.

Subjects, schemas and rights come from the code (`samples`); the corpus adds what no schema knows: bytes that are
no JSON, headers that the broker or a client library obeys, replies that would make a service speak elsewhere.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

from tests.chaos.messages.raw_nats import RawNats, raw_nats
from tests.chaos.messages.samples import (
    MessageSamples,
    PublishTarget,
    publish_targets,
    with_odd_keys,
    with_one_odd_part,
)

from towpath_contracts import subjects
from towpath_contracts.authority import USERS, client_rights
from towpath_embedded.platform import Platform
from towpath_fabric.clock import monotonic

MESSAGE_BYTES = 1024 * 1024 - 512
"""As large as the broker takes with the headers that are added here."""

VALID_SHARE = 0.15
"""Of the made messages these are what the schema allows: strangers' ids and absurd values, in good form."""

ODD_KEYS_SHARE = 0.1

ANSWERS_S = 90.0
"""How long the last answer is waited for; a question may itself ask to wait."""

BODIES = (
    *(
        b"",
        b"\xff\xfe",
        b"\x00",
        b"{",
        b"}",
        b"null",
        b"[]",
        b'"x"',
        b"NaN",
        b"-Infinity",
        b"1e999",
        b"{}",
        b"\xef\xbb\xbf{}",
    ),
    *(b'{"run_id": "\\ud800"}', b'{"run_id": 1, "run_id": 2}', b'{"a": ' + b"9" * 10_000 + b"}", b"[" * 100_000),
    *(b'{"a":' * 20_000 + b"1" + b"}" * 20_000, b'{"schema_version": 999}', b'{"type": "no.such.fact"}', b"{'a': 1}"),
    b'{"a": 1' + b" " * 70_000 + b"}",
    *(b'{"project": "a\\u0000b"}', b'{"project": "a\\u0000b", "attempt": 1e30, "run_id": "\\u0000"}'),
)
"""Bodies that are no message at all."""

LARGE_BODIES = (b" " * MESSAGE_BYTES, b'"' + b"x" * (MESSAGE_BYTES - 2) + b'"', b"[" * MESSAGE_BYTES)
"""One of them goes to every target."""

HEADERS = (
    *(
        b"NATS/1.0",
        b"NATS/1.0 503\r\n\r\n",
        b"NATS/1.0 100 Idle Heartbeat\r\n\r\n",
        b"NATS/1.0 \xff\xff\xff\r\n\r\n",
        b"\xff",
    ),
    b"NATS/1.0\r\nNats-Rollup: all\r\n\r\n",
    b"NATS/1.0\r\nNats-Rollup: sub\r\n\r\n",
    b"NATS/1.0\r\nNats-Expected-Last-Sequence: 1\r\n\r\n",
    b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 999999\r\n\r\n",
    b"NATS/1.0\r\nNats-Expected-Stream: ELSEWHERE\r\n\r\n",
    b"NATS/1.0\r\nNats-TTL: 1s\r\n\r\n",
    b"NATS/1.0\r\nNats-Schedule: @every 1s\r\nNats-Schedule-Target: run.inbox.tas.x\r\n\r\n",
    b"NATS/1.0\r\nNats-Msg-Id: " + b"x" * 4_000 + b"\r\n\r\n",
    b"NATS/1.0\r\nTowpath-Confirm: run.inbox.tas.x\r\n\r\n",
    b"NATS/1.0\r\nTowpath-Confirm: _INBOX.>\r\n\r\n",
    b"NATS/1.0\r\nTowpath-Confirm: _INBOX_orchestrator.x\xff\r\n\r\n",
    b"NATS/1.0\r\nTowpath-Problem: internal\r\n\r\n",
    b"NATS/1.0\r\ncorrelation_id: " + b"x" * 70_000 + b"\r\n\r\n",
    b"NATS/1.0\r\ncontent-type: text/plain\r\nreply_to: run.inbox.tas.x\r\nmessage_id: \xff\r\n\r\n",
    b"NATS/1.0\r\ntraceparent: 00-zz-zz-zz\r\n\xff\xfe: 1\r\n: empty\r\nno colon\r\n\r\n",
)
REPLIES = (b"_INBOX.\xff\xfe", b"_INBOX.a\x0bb", b"_INBOX.*", b"run.inbox.tas.x", b"$JS.API.STREAM.PURGE.INBOX", b"")
TOKENS = (b"\xff\xfe", b"a\x00b", b"a\x0bb", b"\xc2\x85", b"not-an-id", b"x" * 2_000, b"\xe2\x80\xa8")
"""Last tokens of subjects."""

_PILING_UP = ("decide.", "tool.exec.")
"""Subjects that are taken only under names that exist: anything else there raises an alarm, and reaches no service."""


@dataclass(kw_only=True)
class InjectedMessages:
    """What was sent and what came back."""

    sent: Counter[str] = field(default_factory=Counter)
    unanswered: list[str] = field(default_factory=list)
    internal: list[str] = field(default_factory=list)
    """Answers that name an unexpected failure."""
    messages: Counter[tuple[str, bytes]] = field(default_factory=Counter)
    """How often each subject and body was sent."""


async def inject_hostile_messages(
    platform: Platform, *, seed: int, rounds: int, known: Mapping[str, tuple[str, ...]], toolset: str
) -> InjectedMessages:
    """Send the corpus and *rounds* made messages to every target; returns once all questions are answered or given up.

    *known* are names that exist, by field, so that some messages get far.
    """
    users = {**USERS, subjects.ANONYMOUS: client_rights(subjects.ANONYMOUS)}
    run = known["run_id"][0]
    places = {"caller": subjects.ANONYMOUS, "source": "watchdog", "pool": subjects.DEFAULT_POOL, "project": "default"}
    places |= {
        "toolset": toolset,
        "agent": "nobody",
        "place": "nobody",
        "run_id": run,
        "execution_id": run,
        "limit": "local",
    }
    found = list(publish_targets(users, places))
    injected = InjectedMessages()
    async with AsyncExitStack() as stack:
        parts = []
        for user in sorted({target.user for target in found}):
            url = platform.nats_url if user == subjects.ANONYMOUS else platform.nats_url_of(user)
            connection = await stack.enter_async_context(raw_nats(url))
            chance = Random(f"{seed} {user}")
            mine = [target for target in found if target.user == user]
            parts.append(_inject_as(connection, user, mine, MessageSamples(chance, known), chance, rounds, injected))
        await asyncio.gather(*parts)
    return injected


async def _inject_as(
    connection: RawNats,
    user: str,
    found: Sequence[PublishTarget],
    samples: MessageSamples,
    chance: Random,
    rounds: int,
    injected: InjectedMessages,
) -> None:
    prefix = "_INBOX" if user == subjects.ANONYMOUS else f"_INBOX_{user}"
    inbox = f"{prefix}.hostile{chance.getrandbits(48):012x}"
    requests: dict[str, str] = {}
    await connection.listen(f"{inbox}.*".encode())
    for target in found:
        for message in _messages(target, samples, chance, rounds):
            reply = f"{inbox}.{len(requests)}"
            await _send(connection, message, reply.encode(), injected)
            served = target.answered and message.reply is None
            requests[reply] = (
                f"{user} on {target.subject}: {message.body[:300]!r} {message.headers!r:.80}" if served else ""
            )
        await connection.settle()
    await _collect_answers(connection, requests, injected)


@dataclass(frozen=True, kw_only=True)
class HostileMessage:
    """One message; a *reply* of None means: the sender's own inbox."""

    subject: bytes
    body: bytes
    headers: bytes | None = None
    reply: bytes | None = None


def _messages(target: PublishTarget, samples: MessageSamples, chance: Random, rounds: int) -> Iterator[HostileMessage]:
    subject = target.subject.encode()
    for body in (*BODIES, chance.choice(LARGE_BODIES)):
        yield HostileMessage(subject=subject, body=body)
    for headers in HEADERS:
        yield HostileMessage(subject=subject, body=_make_body(samples, target, chance), headers=headers)
    for reply in REPLIES:
        yield HostileMessage(subject=subject, body=_make_body(samples, target, chance), reply=reply)
    if target.free and not target.subject.startswith(_PILING_UP):
        stem = subject.rpartition(b".")[0]
        for token in TOKENS:
            yield HostileMessage(subject=stem + b"." + token, body=_make_body(samples, target, chance))
    for _ in range(rounds):
        yield HostileMessage(subject=_subject(target, subject, chance), body=_make_body(samples, target, chance))


def _subject(target: PublishTarget, subject: bytes, chance: Random) -> bytes:
    """Return the target's subject, sometimes of another run."""
    if target.free and not target.subject.startswith(_PILING_UP) and chance.random() < 0.3:
        return subject.rpartition(b".")[0] + b"." + str(UUID(int=chance.getrandbits(128))).encode()
    return subject


def _make_body(samples: MessageSamples, target: PublishTarget, chance: Random) -> bytes:
    value: Any = samples.valid(target.schema)
    kind = chance.random()
    if kind < VALID_SHARE:
        return json.dumps(value).encode()
    odd = with_odd_keys if kind < VALID_SHARE + ODD_KEYS_SHARE else with_one_odd_part
    return odd(value, chance)[:MESSAGE_BYTES]


async def _send(connection: RawNats, message: HostileMessage, inbox: bytes, injected: InjectedMessages) -> None:
    reply = inbox if message.reply is None else message.reply
    body = message.body[: MESSAGE_BYTES - len(message.headers or b"")]
    await connection.send(message.subject, body, reply=reply, headers=message.headers)
    await asyncio.sleep(0)  # answers must be read meanwhile, or the broker hangs up
    injected.sent[message.subject.split(b".")[0].decode(errors="replace")] += 1
    injected.messages[message.subject.decode(errors="replace"), body] += 1


async def _collect_answers(connection: RawNats, requests: Mapping[str, str], injected: InjectedMessages) -> None:
    """Wait for the answer to every request that a service takes."""
    until = monotonic() + ANSWERS_S
    wanted = {reply for reply, what in requests.items() if what}
    while wanted - connection.answers.keys() and monotonic() < until:  # noqa: ASYNC110 - answers come one by one
        await asyncio.sleep(0.1)
    injected.unanswered += [requests[reply] for reply in sorted(wanted - connection.answers.keys())]
    for reply, bodies in connection.answers.items():
        if requests.get(reply) and any(b'"code":"internal"' in body for body in bodies):
            injected.internal.append(f"{requests[reply]} -> {bodies[0][:300]!r}")
