"""Rows of the problem registry: why a policy, a rule or the grant of a task is not taken."""

from towpath_contracts.problems.kind import ProblemKind

POLICY_PROBLEMS = (
    ProblemKind(
        "policy_invalid",
        422,
        "The policy can't be applied",
        "Correct each place that is named, and try again; nothing was changed.",
    ),
    ProblemKind(
        "grant_not_proposed",
        422,
        "No grant can be proposed",
        "Look at the run that is named, name another model, or write the grant by hand: towpath grants --help.",
    ),
    ProblemKind(
        "grant_too_large",
        422,
        "The conditions of the grant are too much together",
        "Use fewer or shorter conditions; what holds for many tasks belongs into the policy.",
    ),
    ProblemKind(
        "policy_moved", 409, "Another version of the matrix is in force", "Look at it again: towpath policy show."
    ),
    ProblemKind("rule_not_found", 404, "The matrix has no such rule", "List its rules: towpath policy show."),
)
