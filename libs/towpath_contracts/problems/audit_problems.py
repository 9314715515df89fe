"""Rows of the problem registry: what the audit, its exports and erasures are refused for."""

from towpath_contracts.problems.kind import ProblemKind

AUDIT_PROBLEMS = (
    ProblemKind(
        "audit_broken",
        409,
        "The audit does not fit its last checkpoint",
        "Export and verify it: towpath audit export --file FILE. Nothing is sealed until that is settled.",
    ),
    ProblemKind(
        "audit_unreadable",
        409,
        "A table has what the audit can't show",
        "No service writes such a value: find the row, keep it as evidence, and put it right.",
    ),
    ProblemKind(
        "audit_clock_differs",
        503,
        "The clocks of the tool-access service and of Postgres differ",
        "Set both clocks right (NTP). Nothing is sealed until they agree to within five minutes, and until the time of "
        "the last checkpoint has come; entries wait, and calls go on.",
    ),
    ProblemKind(
        "cursor_refused",
        409,
        "The cursor is not the one that was given",
        "Send each piece's cursor and the SHA-256 of its last line back, with the times of the first request; or begin "
        "again without a cursor.",
    ),
    ProblemKind(
        "export_moved",
        409,
        "Something was erased or dropped while the audit was exported",
        "Begin the export again: the bundle would show gaps that it could not explain.",
    ),
    ProblemKind(
        "erasure_not_found", 404, "There is no such erasure", "List them: towpath erasures list; ids are per project."
    ),
    ProblemKind(
        "erasure_settled",
        409,
        "The erasure is decided already",
        "Look at it: towpath erasures show ERASURE. What was withdrawn is asked for again: towpath audit erase.",
    ),
    ProblemKind(
        "erasure_changed",
        409,
        "Other runs would be erased than were asked for",
        "Find out why another run is below it now: nobody confirms what was not shown. Withdraw it, and ask again: "
        "towpath runs erase RUN.",
    ),
    ProblemKind(
        "second_person_required",
        403,
        "Another person has to confirm",
        "Let another holder of audit:erase confirm it, or do so after the time in detail; alone on your machine: "
        "towpath up --single-person.",
    ),
)
"""Spread into the registry beside the codes of everything else."""
