"""Nothing runs without a ticket for exactly this call, and nothing that is not pure without a granted claim."""

import uuid
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.support.tas.tas_peer import GRANTED, TasPeer
from tests.support.waiting import eventually
from tests.support.worker.running_worker import serving
from tests.support.worker.worker_tools import CALLS

from towpath_contracts import subjects
from towpath_contracts.problems.registry import problem
from towpath_contracts.tools.calls import ClaimAnswer, EffectClass, ToolInvocation
from towpath_embedded.servers.nats import Nats
from towpath_fabric.tickets import TicketSigner

ARGS = {"a": 1, "b": 2}
OURS = {"project": "default"}
BOSS: dict[str, Any] = {"run": {"caller": "boss"}}
UNSAID: dict[str, Any] = {"run": None}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    CALLS.clear()


def forged(tas: TasPeer) -> ToolInvocation:
    """Return a call whose ticket somebody else has signed, under the name of the real key."""
    real, tas.signer = tas.signer, TicketSigner(Ed25519PrivateKey.generate(), tas.signer.key_id)
    try:
        return tas.invocation("add", ARGS)
    finally:
        tas.signer = real


def changed(tas: TasPeer, **changes: Any) -> ToolInvocation:
    """Return a call that differs from what its ticket says."""
    return tas.invocation("add", ARGS).model_copy(update=changes)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda tas: tas.invocation("add", ARGS, ticket=""), "ticket_missing"),
        (lambda tas: tas.invocation("add", ARGS, ticket="nonsense.nonsense"), "ticket_forged"),
        (forged, "ticket_forged"),
        (lambda tas: changed(tas, args={"a": 1, "b": 3}), "ticket_mismatch"),
        (lambda tas: changed(tas, tool="large"), "ticket_mismatch"),
        (lambda tas: changed(tas, run_id=uuid.uuid4()), "ticket_mismatch"),
        (lambda tas: changed(tas, execution_id=uuid.uuid4()), "ticket_mismatch"),
        (lambda tas: changed(tas, attempt=2), "ticket_mismatch"),
        (lambda tas: changed(tas, run={"caller": "boss"}), "ticket_mismatch"),
        (lambda tas: tas.invocation("add", ARGS, run={"caller": "ada"}).model_copy(update=BOSS), "ticket_mismatch"),
        (lambda tas: tas.invocation("add", ARGS, run={"caller": "ada"}).model_copy(update=UNSAID), "ticket_mismatch"),
        (lambda tas: tas.invocation("add", ARGS, project="other"), "misdirected"),
        (lambda tas: tas.invocation("add", ARGS, project="other", expires_in_s=-1), "misdirected"),
        (lambda tas: changed(tas, project="other"), "misdirected"),
        (lambda tas: tas.invocation("add", ARGS, project="other").model_copy(update=OURS), "ticket_mismatch"),
    ],
)
async def test_a_call_without_a_good_ticket_never_runs(nats_server: Nats, make: Any, reason: str) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()) as held:
        call = await tas.dispatch(make(tas))
        await eventually(lambda: held.count("towpath_worker_refused_total", reason=reason) == 1)
        await tas.all_acknowledged()
        assert [(letter.reason.split(":")[0], letter.tells) for letter in tas.dead] == [(reason, False)]
        assert (CALLS, tas.outcomes_of(call)) == ([], [])


async def test_a_ticket_of_an_older_attempt_does_not_open_a_newer_one(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()) as held:
        old = tas.invocation("add", ARGS)
        new = tas.invocation("add", ARGS, execution_id=old.execution_id, run_id=old.run_id, attempt=2)
        await tas.dispatch(new.model_copy(update={"ticket": old.ticket}))
        await eventually(lambda: held.count("towpath_worker_refused_total", reason="ticket_mismatch") == 1)
        assert CALLS == []


async def test_an_expired_ticket_is_sent_back_to_be_authorised_again(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        first = tas.invocation("add", ARGS, expires_in_s=-1)
        await tas.dispatch(first)
        assert (await tas.outcome(first)).status == "ticket_expired"
        assert CALLS == []
        again = tas.invocation("add", ARGS, execution_id=first.execution_id, run_id=first.run_id, attempt=2)
        await tas.dispatch(again)
        assert (await tas.outcome(again)).status == "succeeded"
        await tas.all_acknowledged()


async def test_tickets_expire_by_the_platforms_clock_whatever_the_workers_own_says(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas:
        tas.clock_ahead_s = 86_400
        async with serving(nats_server.url()):
            late = await tas.dispatch(tas.invocation("add", ARGS, expires_in_s=3_600))
            assert (await tas.outcome(late)).status == "ticket_expired"
            good = await tas.dispatch(tas.invocation("add", ARGS, expires_in_s=86_460))
            assert (await tas.outcome(good)).status == "succeeded"
    async with TasPeer(nats_server.url()) as tas:
        tas.clock_ahead_s = -86_400
        async with serving(nats_server.url()):
            good = await tas.dispatch(tas.invocation("add", ARGS, expires_in_s=-3_600))
            assert (await tas.outcome(good)).status == "succeeded"


async def test_tickets_of_a_new_key_are_accepted_once_the_key_is_learned(
    nats_server: Nats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("towpath_worker.app.registration.KEYS_FRESH_S", 0.0)
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        assert (await tas.call("add", ARGS)).status == "succeeded"
        tas.signer = TicketSigner(Ed25519PrivateKey.generate())
        assert (await tas.call("add", ARGS)).status == "succeeded"


async def test_the_envelope_may_not_make_a_call_weaker_than_its_ticket(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        call = tas.invocation("pay", {"amount": 1}, effect_class="irreversible")
        await tas.dispatch(call.model_copy(update={"effect_class": EffectClass.PURE}))
        await tas.outcome(call)
        assert len(tas.claims) == 1


async def test_a_malformed_delivery_is_taken_out_and_the_next_one_runs(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()) as held:
        assert (await tas.call("add", ARGS)).status == "succeeded"
        without_digest = tas.invocation("add", ARGS).model_copy(update={"args": {"a": float("nan")}})
        for body in (b"\xff{not json", without_digest.model_dump_json().encode()):
            await tas.nc.jetstream().publish(subjects.tool_exec("default", "default"), body)
        await eventually(lambda: held.count("towpath_worker_refused_total", reason="malformed") == 2)
        await eventually(lambda: [letter.tells for letter in tas.dead] == [True, True])
        assert (await tas.call("add", ARGS)).status == "succeeded"
        await tas.all_acknowledged()


async def test_a_refused_claim_is_acknowledged_and_nothing_runs(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()) as held:
        tas.claim = lambda _asked: ClaimAnswer(granted=False, reason="claimed")
        call = await tas.dispatch(tas.invocation("pay", {"amount": 1}, effect_class="irreversible"))
        await eventually(lambda: held.count("towpath_worker_refused_total", reason="claim") == 1)
        await tas.all_acknowledged()
        assert (CALLS, tas.outcomes_of(call)) == ([], [])


async def test_no_answer_to_a_claim_means_ask_again_with_the_same_id(nats_server: Nats) -> None:
    answers: list[ClaimAnswer | None] = [None, ClaimAnswer(granted=False, reason="unavailable"), GRANTED]
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        tas.claim = lambda _asked: answers.pop(0)
        call = await tas.dispatch(tas.invocation("pay", {"amount": 1}, effect_class="irreversible"))
        await eventually(lambda: len(tas.claims) == 2)
        assert CALLS == []
        outcome = await tas.outcome(call)
        assert {one.claim_id for one in tas.claims} == {outcome.claim_id}
        assert [f"pay {call.execution_id}"] == CALLS


async def test_the_answer_to_another_question_starts_nothing(nats_server: Nats) -> None:
    answers = [GRANTED.model_copy(update={"claim_id": uuid.uuid4()}), ClaimAnswer(granted=False, reason="claimed")]
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()) as held:
        tas.claim = lambda _asked: answers.pop(0)
        call = await tas.dispatch(tas.invocation("pay", {"amount": 1}, effect_class="irreversible"))
        await eventually(lambda: held.count("towpath_worker_refused_total", reason="claim") == 1)
        assert len(tas.claims) == 2 and len({one.claim_id for one in tas.claims}) == 1
        assert (CALLS, (await tas.outcome(call)).status) == ([], "failed")


async def test_a_refusal_after_a_lost_answer_is_reported_since_the_claim_may_be_granted(nats_server: Nats) -> None:
    answers: list[ClaimAnswer | None] = [None, ClaimAnswer(granted=False, reason="unknown")]
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        tas.claim = lambda _asked: answers.pop(0)
        outcome = await tas.call("pay", {"amount": 1}, effect_class="irreversible")
        assert outcome.failure is not None
        assert (outcome.failure.code, outcome.failure.began) == ("not_started", False)
        assert {one.claim_id for one in tas.claims} == {outcome.claim_id}
        assert CALLS == []
        await tas.all_acknowledged()


async def test_a_claim_that_is_refused_by_a_problem_is_not_asked_for_ever(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        tas.refusal = problem("forbidden", "not this worker")
        await tas.dispatch(tas.invocation("pay", {"amount": 1}, effect_class="irreversible"))
        await eventually(lambda: len(tas.claims) == 1)
        await tas.all_acknowledged()
        assert CALLS == []


async def test_a_claim_that_says_the_ticket_ran_out_is_authorised_again(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        tas.claim = lambda _asked: ClaimAnswer(granted=False, reason="ticket_expired")
        outcome = await tas.call("pay", {"amount": 1}, effect_class="irreversible")
        assert outcome.status == "ticket_expired"
        assert CALLS == []


async def test_a_worker_that_comes_too_late_to_start_does_not_start(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        tas.claim = lambda _asked: ClaimAnswer(granted=True, start_by_ms=0, lease_ms=60_000)
        failure = (await tas.call("pay", {"amount": 1}, effect_class="irreversible")).failure
        assert failure is not None
        assert (failure.code, failure.retryable, failure.began) == ("not_started", True, False)
        assert CALLS == []


async def test_a_call_cancelled_before_its_claim_is_granted_does_not_start(nats_server: Nats) -> None:
    answers: list[ClaimAnswer | None] = [None, GRANTED]
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        tas.claim = lambda _asked: answers.pop(0)
        call = await tas.dispatch(tas.invocation("pay", {"amount": 1}, effect_class="irreversible"))
        await eventually(lambda: len(tas.claims) == 1)
        await tas.cancel(call, "stop")
        failure = (await tas.outcome(call)).failure
        assert failure is not None
        assert failure.code == "cancelled"
        assert CALLS == []


async def test_a_tool_that_this_worker_does_not_have_waits_for_one_that_does_and_is_told_once(
    nats_server: Nats, caplog: pytest.LogCaptureFixture
) -> None:
    url = nats_server.url()
    async with TasPeer(url) as tas, serving(url) as held:
        call = await tas.dispatch(tas.invocation("brand_new", {}))
        await eventually(lambda: held.count("towpath_worker_refused_total", reason="tool_unknown") == 2)
        (told,) = [record.getMessage() for record in caplog.records if "lacks a tool" in record.getMessage()]
        assert "brand_new" in told
        assert await tas.left() == (0, 1)
        assert tas.outcomes_of(call) == []
