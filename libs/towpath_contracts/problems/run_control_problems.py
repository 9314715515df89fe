"""Why a run can't be steered from outside."""

from towpath_contracts.problems.kind import ProblemKind

RUN_CONTROL_PROBLEMS = (
    ProblemKind(
        "run_not_live",
        409,
        "The run takes no steps any more",
        "Look at it: towpath runs show RUN. Start a new run, or fork this one from one of its steps.",
    ),
    ProblemKind("run_not_paused", 409, "The run is not paused", "See what it waits for: towpath runs show RUN."),
    ProblemKind(
        "run_gates_full",
        409,
        "People have put as many gates on the run as it takes",
        "Settle one of them: towpath gates list --run RUN.",
    ),
    ProblemKind(
        "note_not_read",
        409,
        "No model of this run would read a note",
        "Give it to a run of one of its agents: towpath runs tree RUN.",
    ),
)
