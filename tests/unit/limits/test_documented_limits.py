"""The pages tell the limits of runs, their tasks and their prompts as the code has them."""

from datetime import timedelta

import pytest
from tests.support.documented_limits import KIB, MIB, Promise, promise

from towpath_contracts.decisions import attachments, earlier_turns
from towpath_contracts.decisions import decision as decisions
from towpath_contracts.network_checks import network_agents as agent_checks
from towpath_contracts.network_checks import swarms as swarm_checks
from towpath_contracts.networks import (
    background,
    child_tools,
    goal,
    plan,
    plan_checks,
    spec,
    swarm,
)
from towpath_contracts.networks import references as plan_references
from towpath_contracts.run_limits import MAX_DEPTH, MAX_PARALLEL, MAX_TIMEOUT_MS, PLAN_STEPS, USUAL_TIMES_MS
from towpath_contracts.runs import run_control
from towpath_contracts.tools import calls as tool_calls
from towpath_contracts.tools import internal_tools, previews, reports, workspace
from towpath_engine.expressions import costs
from towpath_engine.handlers import gates, reservations, run_gates
from towpath_engine.handlers.calls import switches
from towpath_engine.handlers.goal import progress, retry
from towpath_engine.handlers.plan import start_step
from towpath_engine.reducers import children, epoch_turns, references
from towpath_engine.reducers.loops import counters
from towpath_engine.requests import background_context, effects
from towpath_engine.rules import autonomy, criteria_input, output_tools, plan_goals, plan_results, templates
from towpath_engine.state import goal as goal_state
from towpath_engine.state import operator_notes, output_shares
from towpath_readings import execution_log
from towpath_readings.stream import tree

RUNS = [
    promise("runs.md", "slowed down instead, by 1, 2, 4, … up to {} seconds", counters.LONGEST_POLL_WAIT_S),
    promise("runs.md", "The newest {} denied calls are remembered", counters.DENIED_KEPT),
    promise("runs.md", "`max_steps_exceeded` ({} steps unless the network or the task says otherwise)", spec.MAX_STEPS),
    promise("runs.md", "so does its expiry after {} hours", run_gates.RUN_GATE_HOURS),
    promise("runs.md", "an agent or a network | {} minutes", USUAL_TIMES_MS["network"] / 60_000),
    promise("runs.md", "a swarm, a goal | {} minutes", USUAL_TIMES_MS["swarm"] / 60_000),
    promise("runs.md", "a swarm, a goal | {} minutes", USUAL_TIMES_MS["goal"] / 60_000),
    promise("runs.md", "a plan | {} hour", USUAL_TIMES_MS["plan"] / 3_600_000),
    promise("runs.md", "At most {} runs of a tree are followed", tree.MAX_FOLLOWED),
    promise("runs.md", "asks after {} seconds, then more rarely", children.CHILD_RESEND_S),
    promise("runs.md", "Of these a run takes {} at a time (`run_gates_full`)", run_control.MAX_HOLDS),
    promise("runs.md", "The newest {} unread ones are shown", operator_notes.NOTES_KEPT),
    promise("runs.md", "a person below {}, else the model | a person below 0.3", autonomy.PERSON_BELOW["medium"]),
    promise("runs.md", "a person below 0.7, else the model | a person below {}", autonomy.PERSON_BELOW["high"]),
    promise("runs.md", "before confidence is checked | {} | {} | {} |", *autonomy.FAILURES_ASKED.values()),
    promise("runs.md", "previews of {} to {} characters", execution_log.REQUEST_CHARS, execution_log.REASONING_CHARS),
    promise("tools.md", "opens, for {} hours, and `towpath gates resolve ID", gates.UNKNOWN_GATE_HOURS),
]
GOALS = [
    promise("runs.md", "| `max_steps` | {} | steps; further attempts", goal.GOAL_MAX_STEPS),
    promise("runs.md", "| `step_attempts` | {} |", goal.STEP_ATTEMPTS),
    promise("runs.md", "| `confidence_every` | {} |", goal.CONFIDENCE_EVERY),
    promise("runs.md", "| `confidence_threshold` | {} |", goal.CONFIDENCE_THRESHOLD),
    promise("runs.md", "else the share that passes, at most {};", reports.PARTLY),
    promise("runs.md", "| {}, or the share of those expected;", reports.MADE),
    promise("runs.md", "without evidence it counts as {}", progress.UNSHOWN),
    promise("runs.md", "the last {} calls, and looked up in the run's log", goal_state.DEEDS_KEPT),
    promise("runs.md", "the beginning is seen: {} characters in all", criteria_input.MAX_CHARS),
    promise(
        "runs.md", "{} items of a list or an object; {} values", criteria_input.MAX_ITEMS, criteria_input.MAX_VALUES
    ),
    promise("runs.md", "in quotes: {} characters, which times all its counts", costs.MAX_PATTERN),
    promise("runs.md", "(`[0-9]{{4}}`) are {} at most", costs.MAX_PLACES),
    promise(
        "runs.md", "All expressions of a goal, or of a plan, have {} characters together", plan_goals.EXPRESSION_CHARS
    ),
]
PLANS = [
    promise("runs.md", "1 to {} `steps`; `id`, `name`", PLAN_STEPS),
    promise("operations.md", "`TOWPATH_MAX_PLAN_STEPS` | {} |", PLAN_STEPS),
    promise("runs.md", "elsewhere they are refused. At most {} KiB", plan_checks.PLAN_BYTES / KIB),
    promise("runs.md", "1 to {} agents in `steps`, `max_concurrency`", plan_checks.BLOCK_AGENTS),
    promise("runs.md", "(`[a-zA-Z0-9_.-]`, {} characters, used once)", plan_references.MAX_NAME),
    promise("runs.md", "A plan has at most {} references", plan_references.MAX_REFERENCES),
    promise("runs.md", "references, of {} characters together", plan_references.MAX_REFERENCE_CHARS),
    promise("runs.md", "at most {} characters, for all agents of a step", templates.MAX_INPUT),
    promise("runs.md", "for all agents of a step {} and", start_step.STEP_CHARS),
    promise("runs.md", "for all agents of a step 200,000 and {} KiB of JSON", start_step.STEP_BYTES / KIB),
    promise("runs.md", "An answer of more than {} KiB, and what exceeds", references.INLINE_BYTES / KIB),
    promise("runs.md", "and what exceeds {} KiB in all", plan_results.RESULTS_BYTES / KIB),
    promise("runs.md", "`max_concurrency`, `max_parallel` and {} says", MAX_PARALLEL),
    promise("runs.md", "what is to be done, at most {} characters: a model writes the plan", plan.MAX_PROMPT),
    promise("runs.md", 'An answer of more than {} KiB comes as `{{"blob"', references.CARRIED_BYTES / KIB),
    promise("runs.md", "how large it is and its first {} characters", references.PREVIEW_CHARS),
    promise("swarms.md", "Runs stand at most {} deep", MAX_DEPTH),
    promise("swarms.md", "at the same time: {}, which is also the most", MAX_PARALLEL),
    promise("swarms.md", "| `max_handoffs` | {} by default", swarm.MAX_HANDOFFS),
    promise("swarms.md", "that it is in control, {} by default", swarm.AGENT_STEPS),
    promise("swarms.md", "A workflow has at most {} stages", PLAN_STEPS),
    promise("swarms.md", "more than {} agents would take part", swarm_checks.MAX_SWARM_AGENTS),
]
BACKGROUND = [
    promise("runs.md", "| `max_steps` | {} | iterations; retries are iterations too", background.BACKGROUND_MAX_STEPS),
    promise("runs.md", "| `max_failures` | {} | iterations in a row", background.MAX_FAILURES),
    promise("runs.md", "made ASCII and has at most {} characters", background.MAX_OBJECTIVE),
    promise("runs.md", "{} characters unless more (48,000) are asked for |", internal_tools.READ_CHARS),
    promise("runs.md", "an objective of a plan {} characters", internal_tools.PLAN_OBJECTIVE),
    promise("runs.md", "characters, a title {}, details", internal_tools.PLAN_TITLE),
    promise("runs.md", "details and notes {}, ASCII", internal_tools.PLAN_TEXT),
    promise("runs.md", "ASCII; {} steps;", internal_tools.MAX_PLAN_STEPS),
    promise("runs.md", "steps; {} KiB a plan", internal_tools.MAX_PLAN_BYTES / KIB),
    promise("runs.md", "{} segments of 80 characters", workspace.MAX_DEPTH),
    promise("runs.md", "segments of {} characters", workspace.MAX_SEGMENT),
    promise("runs.md", "{} characters a write", workspace.MAX_WRITE_CHARS),
    promise("runs.md", "a write, {} KiB a file", workspace.MAX_FILE_BYTES / KIB),
    promise("runs.md", "a file, {} MiB and", workspace.MAX_WORKSPACE_BYTES / MIB),
    promise("runs.md", "MiB and {} files in all, whose names", workspace.MAX_FILES),
    promise("runs.md", "whose names have {} KiB together", workspace.MAX_NAMES_BYTES / KIB),
    promise("runs.md", "Lists in an answer have {} KiB", internal_tools.MAX_LIST_BYTES / KIB),
    promise("runs.md", "A prompt shows {} KiB of a plan", background_context.PLAN_SHOWN_BYTES / KIB),
    promise("runs.md", "and {} KiB of the list of files", background_context.LISTING_BYTES / KIB),
    promise(
        "runs.md", "{} KiB and {} files in all. Mounted", workspace.MAX_MOUNT_BYTES / KIB, workspace.MAX_MOUNT_FILES
    ),
]
PROMPTS = [
    promise("tools.md", "A result has at most {} MiB, as JSON", tool_calls.MAX_RESULT_BYTES / MIB),
    promise("tools.md", "Up to {} KiB it travels in the outcome", previews.PREVIEW_BYTES / KIB),
    promise("tools.md", "(a field of the network: {} unless it says otherwise", spec.DEFAULT_CONTEXT_LIMIT),
    promise("conversations.md", "`context_limit` ({} bytes unless it says otherwise)", spec.DEFAULT_CONTEXT_LIMIT),
    promise("tools.md", "Without room for {} bytes an output is only listed", output_shares.LEAST_SHOWN),
    promise("tools.md", "{} bytes unless more (48,000) are asked for", internal_tools.READ_BYTES),
    promise("tools.md", "bytes unless more ({}) are asked for", internal_tools.MAX_OUTPUT_READ),
    promise("tools.md", "plain text of up to {} characters, no expression", internal_tools.MAX_SEARCH_CHARS),
    promise("tools.md", "For each of {} matches (at most", internal_tools.SEARCH_MATCHES),
    promise("tools.md", "matches (at most {}) its `offset`", internal_tools.MAX_SEARCH_MATCHES),
    promise("tools.md", "its `offset`, and {} bytes around it", output_tools.AROUND),
    promise("conversations.md", "At most {} turns, 100,000 characters each", earlier_turns.MAX_TURNS),
    promise("conversations.md", "characters each and {} KiB together", earlier_turns.TURNS_BYTES / KIB),
    promise("conversations.md", "The summary, of at most {} characters", earlier_turns.SUMMARY_CHARS),
    promise("models.md", "have as many bytes again, at most {} KiB and", epoch_turns.MAX_BYTES / KIB),
    promise("models.md", "KiB and {} turns; the oldest half goes at once", epoch_turns.MAX_TURNS),
    promise("models.md", "up to {} files, 512 KiB together", attachments.MAX_ATTACHMENTS),
    promise("models.md", "files, {} KiB together", attachments.MAX_ATTACHED_BYTES / KIB),
    promise("models.md", "A budget reserves {} tokens for each", attachments.IMAGE_TOKENS),
    promise("budgets.md", "and result, {} for each image", attachments.IMAGE_TOKENS),
    promise("budgets.md", "{} for each earlier decision and result", reservations.TURN_TOKENS),
    promise("budgets.md", "{} calls (two that fail", effects.CALLS),
    promise("budgets.md", "each of which may write {} tokens", effects.OUTPUT_TOKENS),
    promise("budgets.md", "one call, and {} tokens of answer", effects.LEAN_OUTPUT_TOKENS),
    promise("models.md", "| `max_output_tokens` (else {})", effects.OUTPUT_TOKENS),
    promise("networks.md", "behind the first, written apart; at most {} |", spec.MAX_FALLBACKS),
    promise("operations.md", "of all agents of a network | {} sub-schemas", agent_checks.MAX_NETWORK_SUB_SCHEMAS),
]


@pytest.mark.parametrize("said", [*RUNS, *GOALS, *PLANS, *BACKGROUND, *PROMPTS], ids=lambda said: said.sentence)
def test_a_page_tells_the_limit_that_runs_have(said: Promise) -> None:
    assert said.holds, f"docs/{said.page} does not say: {said.told}"


def test_three_refused_attempts_and_the_calls_of_one_decision_are_as_they_are_told() -> None:
    assert promise("runs.md", "like any invalid one, up to three times for one attempt").holds
    assert retry.MAX_REFUSED == 3
    assert promise("runs.md", "After three in a row the next gate is `manual`").holds
    assert run_gates.MAX_REVISIONS == 3
    assert promise("runs.md", "ends by its iterations, after a week at the latest").holds
    assert timedelta(weeks=1) / timedelta(milliseconds=1) == MAX_TIMEOUT_MS
    assert promise("runs.md", "A pause ends by itself after a year").holds
    assert run_gates.PAUSE_HOURS == 365 * 24
    assert promise("policies.md", "waiting costs no step and no time, for up to a year").holds
    assert timedelta(days=365) == switches.LONGEST_PAUSE
    assert (decisions.MAX_CALLS_PER_DECISION, child_tools.CALL_TIMEOUT_MS) == (10, 3_600_000)
