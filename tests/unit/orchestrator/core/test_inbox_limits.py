"""The largest facts that a run takes: one byte more is refused, and what is read of user code is cut."""

import json
from typing import Any

import pytest
from tests.support.engine.machine import RUN, respond

from towpath_contracts import subjects
from towpath_contracts.facts import DecisionFailedFact, DecisionMadeFact
from towpath_orchestrator.core.inbox_messages import ParsedInboxMessage, read_inbox_message

KIB = 1024
AGENT = subjects.agent_inbox(subjects.agent_pool("default", "critic"), RUN)
MADE = {"type": "decision.made", "run_id": str(RUN), "request_id": str(RUN), "attempt": 1}
DONE = {"type": "tool.finished", "run_id": str(RUN), "execution_id": str(RUN), "status": "succeeded"}


def of_size(body: dict[str, Any], size: int) -> bytes:
    """Return *body* as JSON of exactly *size* bytes: blanks behind it mean nothing."""
    return json.dumps(body).encode().ljust(size)


def parsed(body: dict[str, Any], size: int, subject: str) -> ParsedInboxMessage:
    return read_inbox_message(subject, of_size(body, size))


@pytest.mark.parametrize("subject", [AGENT, f"run.inbox.decider.{RUN}"])
def test_a_decision_has_at_most_256_kib_and_the_run_goes_on_without_a_larger_one(subject: str) -> None:
    made = MADE | {"decision": respond("x")}
    assert isinstance(parsed(made, 256 * KIB, subject).fact, DecisionMadeFact)
    refused = parsed(made, 256 * KIB + 1, subject).fact
    assert isinstance(refused, DecisionFailedFact) and refused.code == "invalid_output"


@pytest.mark.parametrize(
    ("body", "source"), [(DONE, "tas"), (MADE | {"type": "decision.failed", "code": "c", "message": "m"}, "decider")]
)
def test_a_fact_has_at_most_half_of_what_the_broker_carries(body: dict[str, Any], source: str) -> None:
    subject = f"run.inbox.{source}.{RUN}"
    assert parsed(body, 512 * KIB, subject).fact is not None
    assert "the limit is 524288" in parsed(body, 512 * KIB + 1, subject).reason


def test_what_an_agent_counts_is_believed_up_to_a_billion_and_a_million_dollars() -> None:
    """An agent is user code: a budget's sums must fit the tables whatever it says."""

    def believed(tokens: int, usd: float) -> tuple[int, float | None]:
        told = {"usage": {"total_tokens": tokens}, "cost": {"usd": usd, "price_known": True}}
        fact = read_inbox_message(AGENT, json.dumps(MADE | {"decision": respond("x")} | told).encode()).fact
        assert isinstance(fact, DecisionMadeFact)
        return fact.usage.total_tokens, fact.cost.usd

    assert believed(10**9, 1e6) == (10**9, 1e6)
    assert believed(10**9 + 1, 1_000_001.0) == (10**9, None)


def test_the_reason_of_an_agents_failure_is_cut_after_2000_characters() -> None:
    failed = MADE | {"type": "decision.failed", "code": "c", "message": "m" * 2_001}
    fact = read_inbox_message(AGENT, json.dumps(failed).encode()).fact
    assert isinstance(fact, DecisionFailedFact) and fact.message == "m" * 2_000
