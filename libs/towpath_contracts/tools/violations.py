"""Names of the reasons for which the tool-access service denies a call: `Denial.violation_type`.

They are stored in logs and read by the run machine, so a name never changes. Beside them stands what people are told of
a denial.
"""

from towpath_contracts.base import MessagePart


class DenialCode:
    """The stable names of the reasons."""

    PERMISSION = "permission_denied"
    TOOL_UNKNOWN = "tool_unknown"
    OPERATION_UNKNOWN = "operation_unknown"
    ARGUMENTS = "invalid_arguments"
    NOT_GRANTED = "not_granted"
    LIMIT = "limit_exceeded"
    """A limit of the run, whichever of its agents calls."""
    APPROVAL_DENIED = "approval_denied"
    APPROVAL_EXPIRED = "approval_expired"
    DRIFTED = "tool_drifted"
    TOO_COSTLY = "too_costly"
    """Checking its arguments, finding where their values come from, or evaluating conditions would take too long."""
    SCHEMA = "tool_schema_unusable"
    """The tool's schema is one that registration refuses by now."""
    POISON = "poison_message"
    """Each try to authorize it ended the service, so it is denied unseen."""
    RULES_CHANGED = "rules_changed"
    """The stored rules are not those that the policy version was applied with, so nothing is decided by them."""


class DenialExplanation(MessagePart):
    """What people are told of a denial, and no model: which rule, where it stands, and what would allow the call.

    `detail` is all of it in a sentence, `remedy` what to do. `rule_at` is where the rule stands that refused. Where no
    rule allows the call, `nearest` is the one that comes nearest to it: one whose condition the arguments fit and that
    misspells who calls, else one that opens the tool on conditions, else one that opens it to others, else the one that
    opens to this agent the tool with the name most like it.
    """

    detail: str
    remedy: str = ""
    rule_at: str = ""
    nearest: str = ""
    nearest_at: str = ""
