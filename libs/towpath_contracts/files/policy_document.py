"""The form of a policy file: its keys, what each may hold, and within which bounds.

The tool-access service reads a policy with the lines of its own (`policy_file`), by the keys and bounds that stand
here; editors get the same ones as a JSON Schema.
"""

from typing import Annotated, Literal, get_args

from pydantic import Field

from towpath_contracts.base import ClientMessagePart

RuleEffect = Literal["allow", "deny", "require_approval"]
OnExpiry = Literal["deny", "escalate"]
ProfileName = Literal["open", "balanced", "strict"]

TAKEN_BY = {
    "Network": "towpath networks publish",
    "Policy": "towpath policy apply",
    "McpServers": "towpath worker --mcp",
}
"""Which command takes a file of which kind."""

LOOKED_AT_BY = {
    "Network": ("towpath networks validate", "checks it"),
    "Policy": ("towpath policy diff", "shows what it would change"),
    "McpServers": ("towpath mcp inspect", "lists its tools"),
}
"""Which command looks at such a file and changes nothing."""

_TAKES = {"Network": "publishes it", "Policy": "puts it in force", "McpServers": "serves them"}


def other_kind(found: str, wanted: str, file: str) -> str:
    """Return what is said of a *file* that is of the kind *found*: the command that changes nothing stands first."""
    command, what = LOOKED_AT_BY[found]
    taken = f"{TAKEN_BY[found]} {file} {_TAKES[found]}"
    return f"this is a {found}, not a {wanted}; {command} {file} {what}, and {taken}"


MAX_RULES = 10_000
MIN_EXPIRES_S, MAX_EXPIRES_S = 60, 30 * 86_400
DEFAULT_EXPIRES_S = 86_400
"""How long an approval may wait if its rule does not say: a day."""

MAX_CALLS = 1_000_000
MAX_WINDOW_S = 31 * 86_400
MAX_QUORUM = 10
MAX_COST_USD = 1_000_000

RULE_NAME = r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,127}"
NAME_GLOB = r"[A-Za-z0-9_.:/*?\[\]!-]{1,128}"

NamePattern = Annotated[str, Field(pattern=f"^{NAME_GLOB}$")]
Calls = Annotated[int, Field(ge=1, le=MAX_CALLS)]


class RuleCallers(ClientMessagePart):
    """Whose calls a rule is about; what is left out is anybody's. Globs know `*`, `?` and `[…]`."""

    project: NamePattern = "*"
    network: NamePattern = "*"
    agent: NamePattern = "*"
    agent_type: NamePattern = "*"
    caller: NamePattern = "*"


class RuleRate(ClientMessagePart):
    """At most so many calls of the whole project in any window of so many seconds."""

    calls: Calls
    per_s: int = Field(ge=1, le=MAX_WINDOW_S)


class DocumentRule(ClientMessagePart):
    """One rule: whose calls of which tools are allowed, denied or held until a person decides."""

    name: str = Field(pattern=f"^{RULE_NAME}$")
    who: RuleCallers = RuleCallers()
    tool: NamePattern = "*"
    operation: NamePattern = "*"
    effect: RuleEffect
    when: str | bool | None = None
    max_calls_per_run: Calls | None = None
    rate: RuleRate | None = None
    max_cost_per_run_usd: float | None = Field(default=None, gt=0, le=MAX_COST_USD)
    expires_s: int = Field(default=DEFAULT_EXPIRES_S, ge=MIN_EXPIRES_S, le=MAX_EXPIRES_S)
    quorum: int = Field(default=1, ge=1, le=MAX_QUORUM)
    on_expiry: OnExpiry = "deny"
    discovered: bool = False
    note: str = ""
    owner: str = ""


class PolicyDocument(ClientMessagePart):
    """A permission matrix. Deny comes before require_approval, and that before allow; without a rule all is denied."""

    kind: Literal["Policy"]
    profile: ProfileName | None = None
    rules: tuple[DocumentRule, ...] = Field(default=(), max_length=MAX_RULES)
    version: str | int | None = None
    note: str = ""


EFFECTS: tuple[str, ...] = get_args(RuleEffect)
ON_EXPIRY: tuple[str, ...] = get_args(OnExpiry)
CALLER_KEYS = tuple(RuleCallers.model_fields)
RATE_KEYS = tuple(RuleRate.model_fields)
RULE_KEYS = tuple(DocumentRule.model_fields)
TOP_KEYS = tuple(key for key in ("kind", "rules", *PolicyDocument.model_fields) if key != "profile")
