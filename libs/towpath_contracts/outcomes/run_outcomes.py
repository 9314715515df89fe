"""How runs end: their statuses, and the reasons that stand beside these."""

from towpath_contracts.outcomes.outcome_kind import OutcomeKind

_STATUS, _REASON = "status of a run", "reason of a run"
_NOTHING = "Nothing."
_FIRST_PROBLEM = "Read the message beside it: towpath runs show RUN."

RUN_OUTCOMES = (
    OutcomeKind(
        "queued", _STATUS, "It was accepted, and waits for its turn.",
        "Wait; towpath queues list shows how many do.",
    ),
    OutcomeKind("running", _STATUS, "It is under way.", "Follow it: towpath runs watch RUN."),
    OutcomeKind("waiting", _STATUS, "It waits for a person, a tool or a time.", "See for what: towpath runs list."),
    OutcomeKind("cancelling", _STATUS, "It was cancelled; calls that had begun come to their end.", "Wait."),
    OutcomeKind(
        "quarantined", _STATUS, "Its log could not be handled, so it is held as it is.",
        "Read why: towpath runs show RUN; a version that can handle it goes on: towpath queues dead list.",
    ),
    OutcomeKind("completed", _STATUS, "It has ended with an answer.", _NOTHING),
    OutcomeKind("failed", _STATUS, "It has ended without an answer; its reason says why.", _FIRST_PROBLEM),
    OutcomeKind(
        "escalated", _STATUS, "A person ended it at a gate, or nobody answered in time.",
        "See the gate: towpath gates list --status all --run RUN.",
    ),
    OutcomeKind(
        "abandoned", _STATUS, "The model gave the task up, and said why.",
        "Read what it lacked: towpath runs show RUN.",
    ),
    OutcomeKind(
        "cancelled", _STATUS, "Somebody cancelled it, or the run above it ended.",
        "Begin it anew: towpath runs retry RUN.",
    ),
    OutcomeKind(
        "timed_out", _STATUS, "It used its active time up.",
        "Give it more: timeout_ms of the task or the network.",
    ),
    OutcomeKind("responded", _REASON, "An agent answered.", _NOTHING),
    OutcomeKind("instruction_done", _REASON, "The one instruction that it was given is done.", _NOTHING),
    OutcomeKind("criteria_met", _REASON, "The criteria of the goal are met.", _NOTHING),
    OutcomeKind("progress_complete", _REASON, "A goal without criteria was judged to be reached.", _NOTHING),
    OutcomeKind("plan_completed", _REASON, "Every step of the plan is done.", _NOTHING),
    OutcomeKind(
        "max_steps_exceeded", _REASON, "It took as many steps as it may, without an answer.",
        "Look what it did, then fork it with more: towpath runs fork RUN --from-step N --set max_steps=M.",
    ),
    OutcomeKind(
        "max_tool_errors_exceeded", _REASON, "Too many calls in a row failed.",
        "Mend the tool, or say in a note what the calls lacked: towpath runs fork RUN --from-step N --note TEXT.",
    ),
    OutcomeKind(
        "max_failures_exceeded", _REASON, "Too many iterations in a row of a background run failed.",
        "Mend what fails, or raise max_failures of the task.",
    ),
    OutcomeKind(
        "max_handoffs_exceeded", _REASON, "A swarm handed the task over more often than it may.",
        "Narrow who may hand over to whom, or raise max_handoffs of the swarm.",
    ),
    OutcomeKind(
        "handoff_failed", _REASON, "The run that the task was handed over to failed.",
        "Look at that run: towpath runs tree RUN.",
    ),
    OutcomeKind(
        "deadline_exceeded", _REASON, "Its active time was used up.",
        "Give it more (timeout_ms), or fork it: towpath runs fork RUN --from-step N --set timeout_ms=MS.",
    ),
    OutcomeKind(
        "iteration_timeout", _REASON, "One iteration took more than twice its time.",
        "Raise iteration_timeout_ms of the task.",
    ),
    OutcomeKind(
        "budget_exceeded", _REASON, "A hard limit of a budget was reached.",
        "See which: towpath budgets show; go on with a fresh one: towpath runs fork RUN --from-step N --fresh-budget.",
    ),
    OutcomeKind(
        "loop_detected", _REASON, "It did the same again and again, and a note about it did not help.",
        "Tell it what to do otherwise: towpath runs fork RUN --from-step N --note TEXT.",
    ),
    OutcomeKind(
        "low_confidence", _REASON, "The model doubted that it gets there, and a person ended it.",
        "Give it what it lacks, or other criteria.",
    ),
    OutcomeKind(
        "permission", _REASON, "An action was denied that nobody else may take, and a person ended it.",
        "Permit it: towpath policy rule put.",
    ),
    OutcomeKind(
        "manual", _REASON, "A person ended it at a gate that the model, or somebody, had opened.",
        "Read the gate: towpath gates list --status all --run RUN.",
    ),
    OutcomeKind("run_paused", _REASON, "It was paused, and ended there.", "Begin it anew: towpath runs retry RUN."),
    OutcomeKind(
        "unknown_effect", _REASON, "Nobody could tell whether a call happened, and a person ended it.",
        "Look at the other system, then begin it anew: towpath runs retry RUN.",
    ),
    OutcomeKind(
        "plan_failed", _REASON, "A step of the plan failed.",
        "The message names the step and why: towpath runs tree RUN.",
    ),
    OutcomeKind(
        "depth_exceeded", _REASON, "A run would have stood more than three below the top.",
        "Ask fewer agents through one another.",
    ),
    OutcomeKind(
        "goal_not_reached", "refusal of a decision", "The model said that it is done, and the criteria are not met.",
        "Nothing while the run goes on; else look at the criteria.",
    ),
    OutcomeKind(
        "action_repeated", "refusal of a decision", "An action that has just failed was proposed again.",
        "Nothing: the model is told.",
    ),
    OutcomeKind(
        "deliverable_invalid", _REASON, "What a background run handed in does not fit its output schema.",
        "Read the fault: towpath runs show RUN.",
    ),
    OutcomeKind(
        "engine_error", _REASON, "The run machine itself failed at it.",
        "Report it with the trace_id; the run is kept as it was.",
    ),
    OutcomeKind(
        "dead_lettered", "reason of a run or a call", "A message of it could not be handled, try after try.",
        "Look at it, and send it again: towpath queues dead list.",
    ),
    OutcomeKind(
        "log_unreadable", _REASON, "Its log can't be read by this version.",
        "Start a version that can: towpath runs replay RUN says which.",
    ),
    OutcomeKind(
        "child_gone", _REASON, "A run that it waited for is not there any more.",
        "Begin it anew: towpath runs retry RUN.",
    ),
    OutcomeKind(
        "run_ended", "reason of a call", "The run ended before the call did.",
        "Nothing: the record says what the call came to.",
    ),
)  # fmt: skip
