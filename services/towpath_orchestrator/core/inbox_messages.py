"""Reads inbox messages: a fact of a run, or the reason why a message must be set aside.

A source may send only its own fact types, and only about the run that its subject names. Agents are user code: which
pool answers stands in the subject, which the broker checks against their credential, and never in what they send.
"""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from pydantic import ValidationError

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.request import Cost, Usage
from towpath_contracts.facts import SOURCE_FACTS, AnyFact, DecisionFailedFact, DecisionMadeFact, fact_adapter
from towpath_contracts.problems.input_faults import describe_validation_error
from towpath_contracts.strict_json import check_json
from towpath_contracts.subjects import AGENT, agent_model, agent_of_pool

MAX_DECISION_BYTES = 256 * 1024
"""A larger decision counts as malformed: it would not fit the events and messages that follow from it."""

MAX_REASON = 2_000
"""Characters of a failure's reason that are believed from user code; deciders keep to it themselves."""

MAX_COUNT = 10**9
MAX_USD = 10.0**6
"""No answer uses more; larger values are cut, so that sums fit the tables."""

MAX_SHOWN = 128
"""Characters of a code, a pool or a subject that are repeated."""

MAX_FACT_BYTES = 512 * 1024
"""Larger than any fact that services send; large results travel as blobs."""


CostOf = Callable[[str, Usage], Cost | None]
"""Returns what a model's usage costs by the operator's own prices, None where they name none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedInboxMessage:
    """What a message holds: a fact and its JSON text, or in `reason` why it is none."""

    fact: AnyFact | None = None
    text: str = ""
    reason: str = ""


def read_inbox_message(subject: str, body: bytes, cost_of: CostOf | None = None) -> ParsedInboxMessage:
    """Read a message: the fact must be of its source's types and of the run that the subject names.

    Where an agent does not know what its answer cost, the operator's prices say it (*cost_of*).
    """
    source, pool, run = _source_pool_run(subject)
    try:
        fact = fact_adapter.validate_json(body)
    except ValidationError as error:
        return ParsedInboxMessage(reason=f"not a fact: {describe_validation_error(error)}")
    if fact.type not in SOURCE_FACTS.get(source, frozenset()):
        return ParsedInboxMessage(reason=f"{source} may not send {fact.type}")
    if str(fact.run_id) != run:
        return ParsedInboxMessage(reason="the fact is of another run than its subject")
    fault = check_json(body, allow_nul=True)  # a tool's output may hold U+0000; json text can store it
    if isinstance(fact, DecisionMadeFact | DecisionFailedFact):
        return _read_decision(fact, fault, source, pool, body, cost_of)
    if fault is not None:
        return ParsedInboxMessage(reason=f"not JSON that can be stored: {fault}")
    if len(body) > MAX_FACT_BYTES:
        return ParsedInboxMessage(reason=f"a fact of {len(body)} bytes; the limit is {MAX_FACT_BYTES}")
    return ParsedInboxMessage(fact=fact, text=body.decode())


def _source_pool_run(subject: str) -> tuple[str, str, str]:
    """Return the source, the pool of agents and the run that a subject names; empty where it has none."""
    match subject.split(".")[2:]:
        case [source, run] if source != AGENT:
            return source, "", run
        case [source, pool, run] if source == AGENT:
            return source, pool, run
        case _:
            return "", "", ""


def _read_decision(
    fact: DecisionMadeFact | DecisionFailedFact,
    fault: str | None,
    source: str,
    pool: str,
    body: bytes,
    cost_of: CostOf | None,
) -> ParsedInboxMessage:
    """Read an answer to a request for a decision, of deciders or of agents."""
    if fact.pool and not pool:
        return ParsedInboxMessage(reason=f"{source} may not answer for {fact.pool[:MAX_SHOWN]}")
    if pool:
        agent = agent_of_pool(pool)
        if agent is None:
            return ParsedInboxMessage(reason=f"there can be no pool {pool[:MAX_SHOWN]}")
        fact = _with_known_origin(fact, pool, agent[1], cost_of)
    size = len(body)
    if isinstance(fact, DecisionMadeFact) and (fault is not None or size > MAX_DECISION_BYTES):
        refused = _invalid_output(fact, fault or f"it is larger than {MAX_DECISION_BYTES} bytes")
        return ParsedInboxMessage(fact=refused, text=refused.model_dump_json())
    if fault is not None:
        return ParsedInboxMessage(reason=f"not JSON that can be stored: {fault}")
    if size > MAX_FACT_BYTES:
        return ParsedInboxMessage(reason=f"a fact of {size} bytes; the limit is {MAX_FACT_BYTES}")
    return ParsedInboxMessage(fact=fact, text=fact.model_dump_json() if pool else body.decode())


def _with_known_origin(
    fact: DecisionMadeFact | DecisionFailedFact, pool: str, name: str, cost_of: CostOf | None
) -> DecisionMadeFact | DecisionFailedFact:
    """Return the fact as one of this pool, with usage and texts cut to what is accepted from user code."""
    usage, cost = _limited_usage(fact.usage), _limited_cost(fact.cost)
    if cost.usd is None and cost_of is not None:
        cost = cost_of(agent_model(name), usage) or cost
    known: JsonObject = {
        "pool": pool,
        "model": agent_model(name),
        "script": None,
        "usage": usage,
        "cost": cost,
        "duration_ms": _limited_count(fact.duration_ms),
        "called_in": _limited_count(fact.called_in),
        "uncounted": _limited_count(fact.uncounted),
        "prompt_digest": fact.prompt_digest[:MAX_SHOWN],
        "raw_digest": fact.raw_digest[:MAX_SHOWN],
    }
    if isinstance(fact, DecisionFailedFact):
        known |= {"message": fact.message[:MAX_REASON], "code": fact.code[:MAX_SHOWN]}
    return fact.model_copy(update=known)


def _limited_usage(reported: Usage) -> Usage:
    """Negative counts become 0 and large ones are cut, so that no sum falls or overflows."""
    return Usage.model_validate({name: _limited_count(count) for name, count in reported.model_dump().items()})


def _limited_count(reported: int) -> int:
    return min(max(0, reported), MAX_COUNT)


def _limited_cost(reported: Cost) -> Cost:
    """An amount that is negative, too large or no number counts as unknown."""
    if reported.usd is None or not 0 <= reported.usd <= MAX_USD:  # NaN is in no range
        return Cost(usd=None, price_known=False, price_source=reported.price_source[:MAX_SHOWN])
    return reported.model_copy(update={"price_source": reported.price_source[:MAX_SHOWN]})


def _invalid_output(fact: DecisionMadeFact, why: str) -> DecisionFailedFact:
    return DecisionFailedFact(
        code="invalid_output",
        message=f"the decision can't be taken: {why}",
        **fact.model_dump(exclude={"type", "decision"}),
    )


def project_in_subject(subject: str) -> str | None:
    """Return the project of the agents that an inbox subject is for: whoever may publish there; None for services."""
    _source, pool, _run = _source_pool_run(subject)
    agent = agent_of_pool(pool) if pool else None
    return None if agent is None else agent[0]


def run_in_subject(subject: str) -> UUID | None:
    """Return the run that an inbox subject names, None where that is no id."""
    try:
        return UUID(subject.rpartition(".")[2])
    except ValueError:
        return None
