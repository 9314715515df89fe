"""Words at gates that clients of protocols say: about what was shown, and of no effect where they come too late."""

import uuid
from typing import Any

import pytest
from tests.unit.gateway.protocols.test_a2a import gate, principal

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.views import ActionDone, GatePage, ListGates, ResolveGate
from towpath_gateway.app.gate_votes import GateWord, say_word

GATE = uuid.UUID(int=5)


class Platform:
    """Has one gate, where a word is refused with *refusal* unless that is empty; of others it knows nothing."""

    def __init__(self, refusal: str = "") -> None:
        self.votes: list[ResolveGate] = []
        self.platform = self
        self._refusal = refusal

    async def request(self, _method: Any, asked: Any) -> Any:
        if isinstance(asked, ListGates):
            return GatePage(gates=(gate(gate_id=GATE),) if asked.gate_id == GATE else ())
        assert isinstance(asked, ResolveGate)
        self.votes.append(asked)
        if self._refusal:
            raise ProblemError(problem(self._refusal, "no"))
        return ActionDone()


async def said(platform: Any, **more: Any) -> bool:
    return await say_word(platform, principal(), GateWord(**{"gate_id": GATE, "digest": "sha256:aa", **more}))


async def test_a_word_is_bound_to_what_was_shown_and_other_arguments_approve_the_call() -> None:
    platform = Platform()
    assert await said(platform, verdict="denied", reason="too much") and await said(platform, args={"amount": 1})
    assert [(one.verdict, one.reason, one.args, one.digest) for one in platform.votes] == [
        ("denied", "too much", None, "sha256:aa"),
        ("edit", "", {"amount": 1}, "sha256:aa"),
    ]
    assert {(one.actor, one.gate_id) for one in platform.votes} == {("bob", GATE)}


@pytest.mark.parametrize("late", ["gate_settled", "gate_not_found", "digest_changed"])
async def test_a_word_that_comes_too_late_does_not_count(late: str) -> None:
    assert not await said(Platform(late), verdict="approved")
    assert not await said(Platform(), verdict="approved", gate_id=uuid.uuid4())


@pytest.mark.parametrize("refusal", ["role_missing", "requester_may_not_approve", "unavailable"])
async def test_any_other_refusal_is_told(refusal: str) -> None:
    with pytest.raises(ProblemError) as refused:
        await said(Platform(refusal), verdict="approved")
    assert refused.value.problem.code == refusal
