"""What comes out of the inbox: a fact of a run, or something that must be set aside.

Law: a source may send only its own fact types, and only about the run that its subject names (design §6).
"""

from dataclasses import dataclass
from uuid import UUID

from nats.aio.msg import Msg
from pydantic import ValidationError

from towpath_contracts.facts import SOURCE_FACTS, AnyFact, DecisionFailed, DecisionMade, fact_adapter
from towpath_contracts.problems import said_of
from towpath_contracts.strict_json import check_json
from towpath_fabric.pull import deliveries

MAX_DECISION_BYTES = 256 * 1024
"""A larger decision is taken for a malformed one: it would not fit the events and messages that follow from it."""

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
    tokens = message.subject.split(".")
    source, run = tokens[2], tokens[3]
    try:
        fact = fact_adapter.validate_json(message.data)
    except ValidationError as error:
        return Parsed(item=None, reason=f"not a fact: {said_of(error)}")
    if fact.type not in SOURCE_FACTS.get(source, frozenset()):
        return Parsed(item=None, reason=f"{source} may not send {fact.type}")
    if str(fact.run_id) != run:
        return Parsed(item=None, reason="the fact is of another run than its subject")
    fault = check_json(message.data, allow_nul=True)  # a tool's output may hold U+0000; json text can store it
    if isinstance(fact, DecisionMade) and (fault is not None or len(message.data) > MAX_DECISION_BYTES):
        refused = _refused(fact, fault or f"it is larger than {MAX_DECISION_BYTES} bytes")
        return Parsed(item=Item(fact=refused, text=refused.model_dump_json(), message=message))
    if fault is not None:
        return Parsed(item=None, reason=f"not JSON that can be stored: {fault}")
    if len(message.data) > MAX_FACT_BYTES:
        return Parsed(item=None, reason=f"a fact of {len(message.data)} bytes; the limit is {MAX_FACT_BYTES}")
    return Parsed(item=Item(fact=fact, text=message.data.decode(), message=message))


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
