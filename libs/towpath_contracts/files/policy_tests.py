"""The form of a policy test: calls with the verdicts that a matrix must give (`towpath policy test`)."""

from typing import Literal

from pydantic import Field

from towpath_contracts.base import ClientMessage, ClientMessagePart, JsonObject
from towpath_contracts.files.policy_document import RuleEffect

MAX_CASES = 10_000


class CasePrincipal(ClientMessagePart):
    """Who asks, with the members of a rule's `who`."""

    project: str = "default"
    network: str = ""
    agent: str = ""
    agent_type: str = ""
    caller: str = "anonymous"


class PolicyTestCase(ClientMessagePart):
    """One call and the verdict it must get; without `rule` any rule may decide.

    `operation` is the operation of the tool. `used` counts the run's earlier calls by limited rule, `rates` the calls
    that a rule with a rate allowed in the current window.
    """

    name: str = Field(default="", max_length=256)
    who: CasePrincipal = CasePrincipal()
    tool: str
    operation: str = "call"
    args: JsonObject = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    step: int = 1
    origin: JsonObject = Field(default_factory=dict)
    grant: tuple[JsonObject, ...] | None = None
    used: dict[str, int] = Field(default_factory=dict)
    rates: dict[str, int] = Field(default_factory=dict)
    spent_usd: float | None = None
    discovered: bool = False
    verdict: RuleEffect
    rule: str | None = None


class PolicyTest(ClientMessage):
    """A test file: `kind: PolicyTest`, perhaps the `policy` it is about (a path beside it), and its cases."""

    kind: Literal["PolicyTest"]
    policy: str | None = None
    cases: tuple[PolicyTestCase, ...] = Field(min_length=1, max_length=MAX_CASES)
