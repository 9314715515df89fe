"""What comes out of the inbox: a fact of a run, or something that must be set aside.

A source may send only its own fact types, and only about the run that its subject names. Agents are
user code: which pool answers stands in the subject, which their credential proves, and never in what they say.
"""

from dataclasses import dataclass
from uuid import UUID

from nats.aio.msg import Msg
from pydantic import ValidationError

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.request import Cost, Usage
from towpath_contracts.facts import SOURCE_FACTS, AnyFact, DecisionFailed, DecisionMade, fact_adapter
from towpath_contracts.problems.registry import describe_validation_error
from towpath_contracts.strict_json import check_json
from towpath_contracts.subjects import AGENT, agent_model, agent_of_pool
from towpath_fabric.nats.pull_consumer import deliveries

MAX_DECISION_BYTES = 256 * 1024
"""A larger decision is taken for a malformed one: it would not fit the events and messages that follow from it."""

MAX_REASON = 2_000
"""Characters of a failure's reason that are believed from user code; deciders keep to it themselves."""

MAX_COUNT = 10**9
MAX_USD = 10.0**6
"""More than this no agent has used for one answer: it is cut, so that sums stay what the tables can hold."""

MAX_SHOWN = 128
"""Characters of a code, a pool or a subject that are repeated."""

MAX_FACT_BYTES = 512 * 1024
"""No honest fact comes near this; large results travel as blobs."""


@dataclass(slots=True)
class Item:
    """One fact on its way through the loop; `message` is None for facts that this process made itself."""

    fact: AnyFact
    text: str
    message: Msg | None = None

    @property
    def again(self) -> bool:
        """Whether the broker has delivered this fact before."""
        return self.message is not None and deliveries(self.message) > 1


@dataclass(slots=True)
class Parsed:
    """A message that is a fact, or the reason why it is none."""

    item: Item | None
    reason: str = ""


def parse(message: Msg) -> Parsed:
    """Read an inbox message: the fact must be of its source's types and of the run that the subject names."""
    source, pool, run = _place(message.subject)
    try:
        fact = fact_adapter.validate_json(message.data)
    except ValidationError as error:
        return Parsed(item=None, reason=f"not a fact: {describe_validation_error(error)}")
    if fact.type not in SOURCE_FACTS.get(source, frozenset()):
        return Parsed(item=None, reason=f"{source} may not send {fact.type}")
    if str(fact.run_id) != run:
        return Parsed(item=None, reason="the fact is of another run than its subject")
    fault = check_json(message.data, allow_nul=True)  # a tool's output may hold U+0000; json text can store it
    if isinstance(fact, DecisionMade | DecisionFailed):
        return _answer(fact, fault, source, pool, message)
    if fault is not None:
        return Parsed(item=None, reason=f"not JSON that can be stored: {fault}")
    if len(message.data) > MAX_FACT_BYTES:
        return Parsed(item=None, reason=f"a fact of {len(message.data)} bytes; the limit is {MAX_FACT_BYTES}")
    return Parsed(item=Item(fact=fact, text=message.data.decode(), message=message))


def _place(subject: str) -> tuple[str, str, str]:
    """Return the source, the pool of agents and the run that a subject names; empty where it has none."""
    match subject.split(".")[2:]:
        case [source, run] if source != AGENT:
            return source, "", run
        case [source, pool, run] if source == AGENT:
            return source, pool, run
        case _:
            return "", "", ""


def _answer(fact: DecisionMade | DecisionFailed, fault: str | None, source: str, pool: str, message: Msg) -> Parsed:
    """Take an answer to a request for a decision, of deciders or of agents."""
    if fact.pool and not pool:
        return Parsed(item=None, reason=f"{source} may not answer for {fact.pool[:MAX_SHOWN]}")
    if pool:
        agent = agent_of_pool(pool)
        if agent is None:
            return Parsed(item=None, reason=f"there can be no pool {pool[:MAX_SHOWN]}")
        fact = _as_known(fact, pool, agent[1])
    size = len(message.data)
    if isinstance(fact, DecisionMade) and (fault is not None or size > MAX_DECISION_BYTES):
        refused = _refused(fact, fault or f"it is larger than {MAX_DECISION_BYTES} bytes")
        return Parsed(item=Item(fact=refused, text=refused.model_dump_json(), message=message))
    if fault is not None:
        return Parsed(item=None, reason=f"not JSON that can be stored: {fault}")
    if size > MAX_FACT_BYTES:
        return Parsed(item=None, reason=f"a fact of {size} bytes; the limit is {MAX_FACT_BYTES}")
    text = fact.model_dump_json() if pool else message.data.decode()
    return Parsed(item=Item(fact=fact, text=text, message=message))


def _as_known(fact: DecisionMade | DecisionFailed, pool: str, name: str) -> DecisionMade | DecisionFailed:
    """Return the fact as what it is known to be: of this pool, with no more than an agent may say."""
    known: JsonObject = {
        "pool": pool,
        "model": agent_model(name),
        "script": None,
        "usage": _honest_usage(fact.usage),
        "cost": _honest_cost(fact.cost),
        "duration_ms": _counted(fact.duration_ms),
        "called_in": _counted(fact.called_in),
        "uncounted": _counted(fact.uncounted),
        "prompt_digest": fact.prompt_digest[:MAX_SHOWN],
        "raw_digest": fact.raw_digest[:MAX_SHOWN],
    }
    if isinstance(fact, DecisionFailed):
        known |= {"message": fact.message[:MAX_REASON], "code": fact.code[:MAX_SHOWN]}
    return fact.model_copy(update=known)


def _honest_usage(said: Usage) -> Usage:
    """Nobody earns tokens: what would lower a sum counts nothing, and no sum overflows."""
    return Usage.model_validate({name: _counted(count) for name, count in said.model_dump().items()})


def _counted(said: int) -> int:
    return min(max(0, said), MAX_COUNT)


def _honest_cost(said: Cost) -> Cost:
    """Nobody earns money, and what is no amount is unknown."""
    if said.usd is None or not 0 <= said.usd <= MAX_USD:  # NaN is in no range
        return Cost(usd=None, price_known=False, price_source=said.price_source[:MAX_SHOWN])
    return said.model_copy(update={"price_source": said.price_source[:MAX_SHOWN]})


def _refused(fact: DecisionMade, why: str) -> DecisionFailed:
    return DecisionFailed(
        code="invalid_output",
        message=f"the decision can't be taken: {why}",
        **fact.model_dump(exclude={"type", "decision"}),
    )


def run_of(subject: str) -> UUID | None:
    """Return the run that an inbox subject names, None where that is no id."""
    try:
        return UUID(subject.rpartition(".")[2])
    except ValueError:
        return None
