"""Pages tell some limits in words, or by what they mean; the code has those."""

import inspect
from datetime import timedelta

import pytest
from tests.support.documented_limits import KIB, Promise, promise
from tests.support.wire_limits import FILE, written

from towpath import hooks
from towpath.cli.access import gate_watch
from towpath.cli.access.audit_commands import stats
from towpath.cli.definitions.grants_commands import from_runs
from towpath.tools import process
from towpath.tools.isolation import data_folders
from towpath_agent.app import agent_answers
from towpath_audit import sealed_erasures
from towpath_console import kept_answers, live
from towpath_contracts import json_schema
from towpath_contracts.files import policy_document
from towpath_contracts.networks import spec
from towpath_decider.adapters import gemini
from towpath_engine.state.run import LOG_TAIL
from towpath_fabric import dead_letters, health
from towpath_fabric.nats import clusters, stream_publisher
from towpath_fabric.turns import shared_answers
from towpath_gateway.app import console, metric_samples
from towpath_gateway.app.routes import grants
from towpath_gateway.core import headers
from towpath_log_writer.core import final_state
from towpath_orchestrator.app import admission, webhook_delivery
from towpath_orchestrator.app.api import budgets, replay_requests
from towpath_orchestrator.core import tasks, threads, webhook_notices, window_policy
from towpath_readings import goals
from towpath_tas import metrics
from towpath_tas.app import worker_turns
from towpath_tas.app.calls import value_origins
from towpath_tas.app.policy import policy_diff, policy_statistics
from towpath_tas.core import erasure_rules, seal_times
from towpath_tas.core.approvals import approvals
from towpath_tas.core.provenance import carried_readers, copied_pieces, search_budget
from towpath_tas.core.tools import registry
from towpath_worker.adapters.mcp import server

DAY = timedelta(days=1)
TOLD = [
    ("approvals.md", "`expires_s`, a day by default", policy_document.DEFAULT_EXPIRES_S, DAY.total_seconds()),
    ("approvals.md", "A last-minute yes stays good for ten minutes", approvals.APPROVED_GRACE, timedelta(minutes=10)),
    ("approvals.md", "`410` ends it at once", webhook_notices.GONE, 410),
    ("approvals.md", "any replica goes on where another died, 60 s later", webhook_delivery.LEASE_S, 60),
    ("approvals.md", "A try ends after 15 s", webhook_delivery.TIMEOUT_S, 15),
    ("approvals.md", "the 10,000 oldest at most", gate_watch.MAX_GATES, 10_000),
    ("audit.md", "has confirmed within a week after these hours", erasure_rules.EXPIRES, timedelta(weeks=1)),
    ("audit.md", "has confirmed within a week after these hours", sealed_erasures.EXPIRES, timedelta(weeks=1)),
    (
        "audit.md",
        "by more than five minutes",
        seal_times.MAX_CLOCK_DIFFERENCE,
        timedelta(minutes=5),
    ),
    ("console.md", "each is drawn again after two minutes at the latest", live.LONGEST_PAUSE_S, 120),
    ("console.md", "in queues is up to 15 seconds old there", kept_answers.FRESH_S, 15),
    ("console.md", "up to ten minutes where it takes long to be counted", kept_answers.OLDEST_S, 600),
    ("console.md", "no more than six", console.DRAWINGS, 6),
    ("console.md", "three of one project", console.DRAWINGS_OF_PROJECT, 3),
    ("console.md", "within half a minute", console.DRAWING_WAIT_S, 30),
    ("console.md", "two at a time", console.FORMS, 2),
    ("console.md", "eight of one sender", console.FORMS_WAITING, 8),
    ("console.md", "ten seconds at most", console.FORM_WAIT_S, 10),
    ("console.md", "nobody has looked at it for five minutes", metric_samples.PLACE_S, 300),
    ("console.md", "sampled by the gateway every 15 seconds", metric_samples.EVERY_S, 15),
    ("mcp.md", "where the connection had lived for half a minute", server.STEADY_S, 30),
    ("mcp.md", "wait for it up to ten seconds", server.PENDING_S, 10),
    ("mcp.md", "once a second at most", server.PROGRESS_S, 1),
    ("tools.md", "its whole process group gets SIGTERM, and SIGKILL 3 s later", process.GRACE_S, 3),
    ("tools.md", "the folders up to three levels below it", data_folders.LEVELS - 1, 3),
    ("agents.md", "5 s, is cut off, counted", hooks.HOOK_TIMEOUT_S, 5),
    ("models.md", "the last ten entries of the log", LOG_TAIL, 10),
    ("reliability.md", "pings that are sent every second", clusters.CLUSTER_PING_S, 1),
    ("reliability.md", "anew after 2.5 s without a sign of life", clusters.CLUSTER_LOST_S, 2.5),
    ("reliability.md", "Work is sent again every 0.75 s", stream_publisher.AGAIN_S, 0.75),
    ("reliability.md", "for 20 s at most", stream_publisher.GIVEN_UP_S, 20),
    ("runs.md", "in a row, the last ten errors", final_state.MAX_ERRORS, 10),
    ("runs.md", "in a row, the last ten errors", goals.LAST_ERRORS, 10),
    ("operations.md", "does nothing for 15 to 25 seconds ends itself", health.STUCK_AFTER_S, 15),
    ("operations.md", "more than 50 ms of one thread's CPU", metrics.LONG_CPU_S, 0.05),
    ("operations.md", "rendered at most four times a second", health.RENDERS_EVERY_S, 1 / 4),
    ("operations.md", "of one stream and project 1,000 open ones", dead_letters.MAX_OPEN, 1_000),
    ("policies.md", "answers in pieces of at most two seconds", policy_diff.PIECE_S, 2),
    ("policies.md", "grows beyond a minute, another owner", registry.LONG_MS, 60_000),
    ("policies.md", "a timeout that is more than doubled", registry.LONGER, 2),
    ("provenance.md", "The texts of one task have at most 128 KiB", tasks.TASK_LIMITS["quoted_inputs"], 128 * KIB),
    ("provenance.md", "(16 letters in four words,", copied_pieces.MIN_SENTENCE_WORDS, 4),
    ("provenance.md", "or more than a dozen words in a row", copied_pieces.MAX_LIST_WORDS, 12),
    ("provenance.md", "ten letters count as a word at least", copied_pieces.WORD_LETTERS, 10),
    ("provenance.md", "and two of a script that puts no spaces", copied_pieces.UNSPACED_LETTERS, 2),
    ("provenance.md", "Numbers of up to three digits, dates and times", copied_pieces.MAX_SHORT_DIGITS, 3),
    ("provenance.md", "has 16 letters, or 6 with digits among them", carried_readers.MIN_FIELD, 6),
    ("provenance.md", "more than 500 values or 200 sentences", search_budget.MAX_LEAVES, 500),
    ("conversations.md", "with more than an eighth of the room", threads.SHARE_OF_ONE, 8),
    ("scheduling.md", "than what is answered within 50 ms", window_policy.PROMPT_S, 0.05),
    ("scheduling.md", "never more than 1,024", window_policy.CEILING, 1_024),
    ("operations.md", "Eight replays wait at most", replay_requests.MOST_WAITING, 8),
    ("operations.md", "wait at most, four of one project", replay_requests.MOST_OF_PROJECT, 4),
    ("operations.md", "change ten times a second at most", worker_turns.CHANGE_PAUSE_S, 1 / 10),
    ("operations.md", "less often (5 ms for each)", worker_turns.PAUSE_OF_TOOL_S, 0.005),
    ("operations.md", "in each half second", shared_answers.SLOT_S, 0.5),
    ("operations.md", "patterns that take 0.1 s to be compiled", json_schema.MAX_PATTERNS, 0.1 * 10**6),
    ("agents.md", "it is asked three times first", agent_answers.ATTEMPTS, 3),
    ("agents.md", "three times first, after 1 s and 2 s", agent_answers.WAITS_S, (1, 2)),
    ("budgets.md", "five in a second at most", budgets.CHANGES_EVERY_S, 1 / 5),
    ("provenance.md", "a quarter of a second of one batch", value_origins.PASS_S, 1 / 4),
    ("models.md", "thinking: 0, 512, 1024, 8192, 24576", list(gemini._BUDGETS.values()), [0, 512, 1024, 8192, 24576]),
    ("scheduling.md", "take a tenth of the time at most", admission.SHARE_OF_TIME, 10),
    ("networks.md", "all its attempts together; at most an hour", spec.MAX_STEP_TIMEOUT_MS, 3_600_000),
]


@pytest.mark.parametrize(
    ("page", "words", "value", "meant"), TOLD, ids=lambda part: part if isinstance(part, str) else ""
)
def test_a_limit_is_what_its_page_says_in_words(page: str, words: str, value: object, meant: object) -> None:
    said: Promise = promise(page, words)
    assert said.holds, f"docs/{page} does not say: {words}"
    assert value == meant


def test_past_runs_of_a_month_are_read_for_a_grant_over_http_and_by_the_command_line() -> None:
    since = inspect.signature(from_runs).parameters["since"].default
    assert since == f"{grants.HISTORY.days}d" == "30d"


def test_calls_are_counted_of_the_last_day_where_no_time_is_given() -> None:
    assert "the last day, where it isn't given" in (inspect.getdoc(stats) or "")
    assert policy_statistics.DAY.total_seconds() == 24 * 3_600


def test_a_header_holds_an_idempotency_key_as_long_as_that_of_a_message() -> None:
    taken = written(FILE.read_text("utf-8"))["SubmitTask.idempotency_key"]["maxLength"]
    assert int(taken) == headers.MAX_IDEMPOTENCY_KEY_BYTES
