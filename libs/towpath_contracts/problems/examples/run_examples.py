"""Causes and examples of problems of runs that there are: of steering, continuing and reading them."""

from towpath_contracts.problems.kind import ProblemExample

RUN_EXAMPLES = {
    "fence_raised": ProblemExample(
        "The run was cancelled or ended, so none of its calls may start any more, whoever approves it now.",
        "run 7c1e2f90-… was stopped; the call can't run again → `towpath run support 'Refund 8812'`",
    ),
    "not_a_goal": ProblemExample(
        "Progress, criteria and confidence are of runs that pursue a goal, and this one answers a message.",
        "run 7c1e2f90-… pursues no goal → `towpath runs show 7c1e`; with one: `towpath run support --goal goal.yaml`",
    ),
    "not_a_plan": ProblemExample(
        "Steps with their states are of runs that carry out a plan or a workflow, and this one does not.",
        "run 7c1e2f90-… carries out no plan → `towpath runs show 7c1e`; with one: `towpath run support --plan "
        "plan.yaml`",
    ),
    "file_not_found": ProblemExample(
        "The run wrote no file of this path, or has no such version of it.",
        "run 7c1e2f90-… has no file report.md → `towpath workspace ls 7c1e`",
    ),
    "run_not_live": ProblemExample(
        "A pause, a note or a gate is for a run that takes steps, and this one has ended or is being cancelled.",
        "run 7c1e2f90-… is completed → `towpath runs fork 7c1e --from-step 3 --note 'use the other order'`",
    ),
    "run_not_paused": ProblemExample(
        "Nobody has paused the run itself: it works, waits for something else, or a switch holds it.",
        "run 7c1e2f90-… is running, and not paused → `towpath runs show 7c1e`; switches: `towpath switches list`",
    ),
    "run_gates_full": ProblemExample(
        "A script, say, puts a gate on the run again and again, and nobody settles any.",
        "16 gates that people have put on run 7c1e2f90-… are open → `towpath gates list --run 7c1e`, then approve them",
    ),
    "note_not_read": ProblemExample(
        "The run carries out the steps of a plan or a workflow; the models are asked in the runs below it.",
        "run 7c1e2f90-… carries out steps, and asks no model → `towpath runs tree 7c1e`, then `towpath runs note "
        "CHILD 'mind the date'`",
    ),
    "act_refused": ProblemExample(
        "A note was accepted, and the run could not write it into its log: it has a sign that Postgres can't store.",
        "value_refused: Postgres can't store it: UntranslatableCharacterError: … → say it in other words: `towpath "
        "runs note 7c1e 'mind the date'`",
    ),
    "run_finished": ProblemExample(
        "The run ended by itself before the cancel came.",
        "run 7c1e2f90-… is completed → `towpath runs show 7c1e`",
    ),
    "run_unreadable": ProblemExample(
        "The run's log has an event that this version does not know: services of a later version wrote it.",
        "the log of run 7c1e2f90-… can't be read: it takes no step, and can't be stopped → start the later version "
        "again, then `towpath queues dead requeue 12 --reason upgraded`",
    ),
    "fork_refused": ProblemExample(
        "A step was named that the run has not come to, that is not over, or that a fork shares with its parent.",
        "the run has 5 steps; name one from 1 to 5 → `towpath runs fork 7c1e --from-step 5`",
    ),
    "run_continued": ProblemExample(
        "A conversation is one chain of runs, and this run has its reply already.",
        "run 9d2b3c00-… continues 7c1e2f90-… → `towpath run --continue 9d2b 'And the other order?'`",
    ),
    "reply_refused": ProblemExample(
        "Replies go to the run that a caller submitted, on its network: never to a run that another run has started.",
        "another run has started 7c1e2f90-…: reply to that one → `towpath runs tree 7c1e` names it",
    ),
    "dead_letter_settled": ProblemExample(
        "Somebody has sent the letter again, or thrown it away.",
        "dead letter 12 was requeued by anna → `towpath queues dead list`",
    ),
    "tool_call_not_found": ProblemExample(
        "The call is another run's, was never dispatched, or has no outcome yet.",
        "5b1c0f0e-… has no outcome in run 7c1e2f90-… → `towpath runs log 7c1e` lists the calls",
    ),
    "range_invalid": ProblemExample(
        "The header Range asks for bytes behind the end of what the call returned.",
        "there are 512 bytes → Range: bytes=0-511, or all of it: `towpath runs output 7c1e 5b1c`",
    ),
    "run_failed": ProblemExample(
        "A program waited for the answer, and the run failed, timed out, or was stopped on the way.",
        "script_exhausted: the script of 1 entry has nothing left for agent triage: add what it does next →"
        " `towpath runs show 7c1e`",
    ),
    "answer_missing": ProblemExample(
        "A client of OpenAI, A2A or NATS agents asked, and its run ended without an answer.",
        "model_unauthorized: no key for OpenAI: set OPENAI_API_KEY, and start the platform again → "
        "`towpath runs show 7c1e`",
    ),
    "answer_replaced": ProblemExample(
        "Text was streamed to a client of OpenAI while a model wrote it, and the model's answer was asked for anew.",
        "the model began anew, and what was sent before is no part of its answer → read the whole answer: `towpath "
        "runs show 7c1e`",
    ),
}
"""By code."""
