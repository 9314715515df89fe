"""What the orchestrator decides, without I/O and without a clock.

    task ──> tasks, task_kinds ──> admission_picker ──> run: refused whole, or begun, or queued
    message ──> inbox_messages ──> fact of a run, or dead letter
    facts ──> budget_scopes, transitions ──> what is committed
    fact that can't be stored ──> refused_facts ──> the run asks again, or is parked
    effects ──> dispatch_choice, window_policy ──> where requests go, and how many at once
    child's row ──> child_reports ──> facts of its parent
    gate's row ──> webhook_notices ──> notices, and when they are tried again
    stored run ──> replay_check ──> identical, or where it differs

The state machine of a run itself is `towpath_engine`; `app` calls both and does what they decide.
"""
