"""Why a word at a gate is not taken."""

from towpath_contracts.problems.kind import ProblemKind

GATE_PROBLEMS = (
    ProblemKind(
        "reason_required",
        400,
        "A reason is needed",
        "Say why: --reason WHY; in a program reason=, in a request `reason`.",
    ),
    ProblemKind(
        "digest_changed", 409, "The call changed since it was shown", "Look at the gate again before you decide."
    ),
    ProblemKind(
        "verdict_invalid",
        400,
        "This gate takes another verdict",
        "Say one of those in detail: towpath gates resolve GATE VERDICT.",
    ),
    ProblemKind(
        "requester_may_not_approve",
        403,
        "Who asked may not approve",
        "Let another person decide; alone on your machine: towpath up --single-person.",
    ),
    ProblemKind(
        "act_refused",
        422,
        "The run could not take it",
        "Nothing came of it: say it in other words. The dead letters have what was sent: towpath queues dead list.",
    ),
    ProblemKind(
        "delegate_may_not_decide",
        409,
        "The one it would be handed to may not decide there",
        "Name somebody with the role in detail who has not decided yet, or role:NAME.",
    ),
    ProblemKind(
        "delegate_unknown",
        409,
        "Nobody is known by the name that it would be handed to",
        "Look at the name: towpath keys list. Whoever has never had a key nor signed in is named with --unknown.",
    ),
    ProblemKind(
        "edit_refused",
        422,
        "The call can't be changed like that",
        "Nothing was changed: give arguments that the tool takes and the matrix lets through, or approve or deny.",
    ),
    ProblemKind(
        "retry_refused",
        409,
        "The call may not run again",
        "Say happened or did_not_happen; a run that still needs it asks for it anew.",
    ),
    ProblemKind(
        "revisions_used_up",
        409,
        "The call was changed too often",
        "Approve or deny it as it is: towpath gates show GATE.",
    ),
    ProblemKind("role_missing", 403, "The role is missing", "A person with the role in detail must do it."),
)
