"""Each NATS credential has exactly the rights in tests/authority/nats.yaml, and no reply adds to them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import nats
import pytest
from nats.aio.msg import Msg
from tests.support.platform.nats_rights import (
    ANSWER,
    CREDENTIALS,
    Trial,
    broker,
    jetstream,
    own_inbox,
    rights,
    spoken,
    system,
    written,
)
from tests.support.waiting import all_sent, eventually

from towpath_contracts.authority import CORE, MAX_REPLIES, USERS
from towpath_contracts.streams import exec_consumer
from towpath_contracts.subjects import (
    AGENTS_DISCOVERY,
    agents_answer,
    agents_info,
    agents_prompt,
    agents_status,
    tool_exec,
)
from towpath_embedded.servers.nats import Nats
from towpath_embedded.servers.postgres_identity import temporary_folder
from towpath_fabric.nats.request_sender import MAX_REPEATS
from towpath_fabric.nats.streams import ensure_consumer, ensure_streams

OUTSIDE = sorted(user for user, credential in CREDENTIALS.items() if credential.account != CORE)


@pytest.fixture(scope="module")
def server() -> Iterator[Nats]:
    with temporary_folder() as folder:
        started = broker(folder)
        asyncio.run(started.start())
        try:
            yield started
        finally:
            asyncio.run(started.stop())


async def test_the_broker_allows_what_the_file_says_and_nothing_else(server: Nats) -> None:
    assert await rights(server) == written(), "python -m tests.support.platform.nats_rights write, and read the diff"


@pytest.mark.parametrize("user", OUTSIDE)
async def test_no_reply_carries_an_answer_where_its_asker_may_not_speak(server: Nats, user: str) -> None:
    """The caller names the reply subject: in one account, the service would publish there with its own rights."""
    async with Trial(server, user) as trial:
        tried = [*spoken(), *jetstream(), *system()]
        mine = set(await trial.say(tried))
        for question in [subject for subject in mine if not subject.startswith("$JS.")]:
            for place in tried:
                await trial.nc.publish(question, b"question", reply=place)
            await trial.settle()
        await eventually(lambda: any(data == ANSWER for _, data in trial.heard))
        await trial.settle()
        spoke = {subject for subject, data in trial.heard if data == ANSWER and not subject.startswith("_R_.")}
        assert spoke <= mine


async def test_a_pull_carries_no_call_to_others(server: Nats) -> None:
    """A worker asks for its next call and names somebody else's place as its own; its own place does hear."""
    toolset = ("shop", "billing")
    admin = await nats.connect(server.url("deploy"), inbox_prefix=b"_INBOX_deploy")
    await ensure_streams(admin)
    await ensure_consumer(admin, exec_consumer(*toolset))
    await admin.close()
    ask = f"$JS.API.CONSUMER.MSG.NEXT.TOOLEXEC.{exec_consumer(*toolset).durable}"
    async with Trial(server, "billing") as worker, Trial(server, "worker") as other:
        await other.listen([f"{own_inbox('worker')}.victim"])
        targets = ["tool.request", "tool.exec.shop.mail", "run.inbox.tas.x", "_INBOX_tas.x"]
        strayed: list[str] = []
        for target in targets:  # a delivery bears the subject of its stream, wherever it goes
            await worker.witness.subscribe(target, cb=noting(target, strayed))
        for _ in [*targets, "victim", "mine"]:
            await worker.witness.publish(tool_exec(*toolset), b"call")
        await worker.settle()
        for target in [*targets, f"{own_inbox('worker')}.victim"]:
            await worker.nc.publish(ask, b"1", reply=target)
        await worker.listen([f"{own_inbox('billing')}.me.mine"])
        await worker.nc.publish(ask, b"1", reply=f"{own_inbox('billing')}.me.mine")
        await eventually(lambda: (tool_exec(*toolset), b"call") in worker.own)
        await other.settle()
        assert (other.own, strayed) == ([], [])


def noting(place: str, found: list[str]) -> Callable[[Msg], Awaitable[None]]:
    """Return what notes that something came to *place*."""

    async def note(_message: Msg) -> None:
        found.append(place)

    return note


@pytest.mark.parametrize("user", OUTSIDE)
async def test_nobody_outside_receives_more_than_the_file_says(server: Nats, user: str) -> None:
    """What is said among the core services reaches only who may subscribe it."""
    async with Trial(server, user) as trial:
        allowed = set(await trial.listen(spoken()))
        for subject in spoken():
            await trial.witness.publish(subject, b"said")
        await trial.settle()
        outside = {subject for subject in allowed if not subject.startswith("_")}
        assert {subject for subject, _ in trial.own} == outside


async def test_each_try_of_a_request_may_be_answered_and_no_more(server: Nats) -> None:
    """A slow service gets a request again on the same reply subject: its later answers are no forbidden words."""
    said: list[Exception] = []
    subject = "svc.tas.check_grant"

    async def note(error: Exception) -> None:
        said.append(error)

    service = await nats.connect(server.url("tas"), inbox_prefix=b"_INBOX_tas.x", error_cb=note)
    asker = await nats.connect(server.url("orchestrator"), inbox_prefix=b"_INBOX_orchestrator.x")
    tries = await service.subscribe(subject)
    await all_sent(service)
    inbox = asker.new_inbox()
    answers = await asker.subscribe(inbox)
    for _ in range(MAX_REPEATS + 1):
        await asker.publish(subject, b"question", reply=inbox)
    asked = [await tries.next_msg(timeout=20) for _ in range(MAX_REPEATS + 1)]
    assert MAX_REPEATS + len(asked) == MAX_REPLIES
    for message in asked:
        await message.respond(b"answer")
    assert [(await answers.next_msg(timeout=20)).data for _ in asked] == [b"answer"] * len(asked)
    await all_sent(service)
    assert said == []
    await asked[0].respond(b"one too many")
    await all_sent(service)
    await eventually(lambda: len(said) == 1)
    await service.close()
    await asker.close()


async def test_a_client_prompts_agents_in_its_own_name_alone_and_hears_every_chunk(server: Nats) -> None:
    heard: list[str] = []
    gateway = await nats.connect(server.url("gateway"), inbox_prefix=b"_INBOX_gateway.x")

    async def answer(message: Msg) -> None:
        heard.append(message.subject)
        for chunk in (b"one", b"two", b"") if message.reply else ():
            await message.respond(chunk)

    for subject in USERS["gateway"].streams:
        await gateway.subscribe(subject, cb=answer)
    await all_sent(gateway)
    kinds = (agents_prompt, agents_status, agents_answer)
    places = [kind(caller, "x") for kind in kinds for caller in ("alice", "bob", "anonymous", "*")]
    tried = [*places, AGENTS_DISCOVERY, agents_info("alice"), agents_info("bob"), "$SRV.PING", "$SRV.INFO"]
    own = {*(kind("alice", "x") for kind in kinds), AGENTS_DISCOVERY}
    async with Trial(server, "alice") as alice, Trial(server, "anonymous") as nobody:
        assert set(await alice.say(tried)) == own
        assert await nobody.say(tried) == []
        await eventually(lambda: len(heard) == len(own))
        assert set(heard) == {*(kind("alice", "x") for kind in kinds), agents_info("alice")}
        inbox = alice.nc.new_inbox()
        answers = await alice.nc.subscribe(inbox)
        await alice.nc.publish(agents_prompt("alice", "x"), b"hi", reply=inbox)
        assert [(await answers.next_msg(timeout=20)).data for _ in range(3)] == [b"one", b"two", b""]
    await gateway.close()
