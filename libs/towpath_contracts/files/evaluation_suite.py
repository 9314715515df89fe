"""The form of an evaluation suite: tasks, and what must come of each (`towpath eval`)."""

from typing import Literal

from pydantic import Field

from towpath_contracts.base import ClientMessage, ClientMessagePart, JsonObject

MAX_EVALUATED = 1_000
"""Cases of one suite: each is a run, and with a model of a provider it is paid for."""

DEFAULT_TIMEOUT_S = 120.0
"""How long a run may take until its case has failed."""

Texts = tuple[str, ...]
GateDecision = Literal["approve", "deny", "happened", "did_not_happen", "retry", "stop"]
"""How a gate is decided; which of them one takes depends on its kind."""


class ExpectedGate(ClientMessagePart):
    """A gate that must open, and how it is decided. What is left out may be anything; `args` are some of those asked.

    `decide` is `approve`, `deny`, or another verdict that the gate takes. With `edit` a call is approved with these
    arguments in place of its own.
    """

    kind: str | None = None
    rule: str | None = None
    tool: str | None = None
    args: JsonObject = Field(default_factory=dict)
    decide: GateDecision = "approve"
    edit: JsonObject | None = None
    reason: str = "decided by an evaluation"


class ExpectedCall(ClientMessagePart):
    """A call; `args` are some of its arguments. Without `times` at least one, without `status` one that ran."""

    tool: str
    args: JsonObject = Field(default_factory=dict)
    times: int | None = Field(default=None, ge=1)
    status: str | None = None


class ForbiddenCall(ClientMessagePart):
    """A call that must not run; without `args` none of its tool."""

    tool: str
    args: JsonObject = Field(default_factory=dict)


class ExpectedOutcome(ClientMessagePart):
    """What must hold once a run has ended. `that` are CEL expressions over `result`."""

    status: str = "completed"
    reason: str | None = None
    contains: Texts = ()
    lacks: Texts = ()
    matches: str | None = None
    output: JsonObject | None = None
    that: Texts = ()
    calls: tuple[ExpectedCall, ...] = ()
    no_calls: tuple[ForbiddenCall, ...] = ()
    max_usd: float | None = Field(default=None, ge=0)
    max_tokens: int | None = Field(default=None, ge=0)
    max_steps: int | None = Field(default=None, ge=1)


class EvaluationCase(ClientMessagePart):
    """One task. `task` has more of its options, with the names that the HTTP API gives them."""

    name: str = Field(min_length=1, max_length=256)
    input: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    task: JsonObject = Field(default_factory=dict)
    gates: tuple[ExpectedGate, ...] = ()
    expect: ExpectedOutcome = ExpectedOutcome()


class EvaluationSuite(ClientMessage):
    """A suite file: `kind: Evaluation`, what its cases run on (paths beside it), and the cases."""

    kind: Literal["Evaluation"]
    network: str = Field(min_length=1)
    policy: str | None = None
    tools: Texts = ()
    replay: str | None = None
    timeout_s: float = Field(default=DEFAULT_TIMEOUT_S, gt=0, le=86_400)
    cases: tuple[EvaluationCase, ...] = Field(min_length=1, max_length=MAX_EVALUATED)
