"""The pages tell what services take at a time, keep, and wait for, as the code has it."""

import pytest
from tests.support.documented_limits import KIB, MIB, Promise, promise

from towpath.tools.egress_rules import DEFAULT_LIMITS
from towpath.tools.isolation import data_folders
from towpath.tools.sandbox import Sandbox
from towpath.user_code import MAX_ABANDONED
from towpath_agent.app import agent_answers
from towpath_audit import retention
from towpath_contracts import json_schema, strict_json
from towpath_contracts.files import policy_document
from towpath_contracts.problems import input_faults
from towpath_contracts.runs import script_size
from towpath_contracts.schema_bounds import size as schema_size
from towpath_contracts.schema_bounds import work as schema_work
from towpath_contracts.tools import grants as tool_grants
from towpath_decider.adapters import answer_bounds, stream_assembly
from towpath_decider.app import compile_caches, model_checker, provider_limiter
from towpath_decider.core import conversation, native_tool_calls, rate_policy
from towpath_fabric import prompt_templates, redaction, service
from towpath_fabric.http import connections
from towpath_fabric.postgres import database_hosts
from towpath_fabric.turns import fair_threads, shared_answers
from towpath_gateway.adapters import platform_client
from towpath_gateway.app import dependencies, log_readings, stream_pace, strict_requests
from towpath_gateway.app.protocols.ag_ui.agent_input import MAX_MESSAGES
from towpath_gateway.app.protocols.mcp_server import gate_questions, tool_calls
from towpath_gateway.app.protocols.openai.conversation_items import MAX_ITEMS
from towpath_gateway.core import gate_texts
from towpath_log_writer.adapters import history_tables
from towpath_log_writer.core import final_state
from towpath_orchestrator.app import admission
from towpath_orchestrator.app.api import (
    budgets,
    client_requests,
    earlier_runs,
    grant_history,
    handlers,
    network_registry,
    queries,
    replay_requests,
    run_questions,
    submit,
)
from towpath_orchestrator.app.commit import inbox, output_reader
from towpath_orchestrator.app.dispatch import dispatch_windows
from towpath_orchestrator.core import threads, webhook_notices
from towpath_tas.adapters import cel, origin_tables
from towpath_tas.app import loaded_policies, worker_turns
from towpath_tas.app.audit import audit_export, export_piece, stored_lines
from towpath_tas.app.calls import value_origins
from towpath_tas.app.policy import policy_diff, policy_threads, policy_versions, registration_checks
from towpath_tas.app.worker_requests import MAX_BRACKETS
from towpath_tas.core.calls import claims, ledger
from towpath_tas.core.policy import grants, policy_file, policy_size
from towpath_tas.core.provenance import copied_pieces, search_budget, text_readers
from towpath_tas.core.tools import arguments
from towpath_tas.wiring.audit_wiring import AUDIT_WAIT_S
from towpath_watchdog.core import findings, run_memory, similarity
from towpath_worker.adapters.mcp import answers as mcp_answers
from towpath_worker.adapters.mcp import discovery, server, tool_checks
from towpath_worker.app import probe_runner

DOOR = [
    promise("operations.md", "A head of more than {} KiB is refused", service.MAX_HEAD_BYTES / KIB),
    promise("operations.md", "the whole body, of {} MiB at most", strict_requests.MAX_BODY_BYTES / MIB),
    promise("operations.md", "read at most {} pages of logs at once", stream_pace.PAGES_PER_KEY),
    promise("operations.md", "gets no turn within {} s is answered with 503", stream_pace.OPEN_WAIT_S),
    promise("operations.md", "look at logs {} times a second", stream_pace.LOOKS_PER_S),
    promise("operations.md", "Bodies of {} KiB or more are parsed one at a time", strict_requests.ALONE_BYTES / KIB),
    promise("operations.md", "Of those of {} KiB or more few requests", platform_client.LONG_BYTES / KIB),
    promise("operations.md", "from {} KiB on 4 and 2", platform_client.HUGE_BYTES / KIB),
    promise("operations.md", "Who gets no turn in {} s is answered with 429", platform_client.TURN_WAIT_S),
    promise("operations.md", "Who gets no turn in {} s is answered with 429", dependencies.BODY_WAIT_S),
    promise("operations.md", "A body has at most {} values", strict_json.MAX_VALUES),
    promise("operations.md", "names of fields at most {} characters", strict_json.MAX_NAME_CHARS),
    promise("operations.md", "A script has at most {} values", script_size.MAX_SCRIPT_VALUES),
    promise("operations.md", "at most {} faults are listed", input_faults.MAX_LISTED),
    promise("operations.md", "In each orchestrator {} pages of logs", run_questions.PAGES),
    promise("operations.md", "read at a time, {} of one project; of what", run_questions.PAGES_OF_ONE),
    promise("operations.md", "is small {} and 8.", run_questions.LOOKS),
    promise("operations.md", "is small 16 and {}.", run_questions.LOOKS_OF_ONE),
    promise(
        "operations.md", "settled, {} are at work and {} of one project", run_questions.ACTS, run_questions.ACTS_OF_ONE
    ),
    promise("operations.md", "A gateway has {} pages under way", log_readings.PAGES),
    promise("operations.md", "pages under way, {} of one project", log_readings.PAGES_OF_PROJECT),
    promise("operations.md", "and reads {} logs of more than a page", log_readings.WHOLE),
    promise("operations.md", "or large results, {} of one project", log_readings.WHOLE_OF_PROJECT),
    promise("console.md", "chosen from the newest {} gates", queries.CLOSED_LOOKED_AT),
    promise("operations.md", "the newest {} runs of the project, or of the status", queries.RUNS_LOOKED_AT),
    promise("operations.md", "tool with rule | {} gates, the oldest first", queries.GATES_LOOKED_AT),
    promise("operations.md", "`--since` | project, time | {} runs |", replay_requests.LOOKED_AT),
    promise("operations.md", "no turn within {} s at the orchestrator", run_questions.WAIT_S),
    promise("operations.md", "or {} s at the gateway", log_readings.WAIT_S),
    promise("operations.md", "while {} MiB of answers wait", log_readings.UNREAD_BYTES / MIB),
    promise("operations.md", "takes less than {} KiB of a waiting answer", connections.TAKEN_BYTES / KIB),
    promise("operations.md", "at most {} connections are held", service.HEALTH_CONNECTIONS),
    promise("operations.md", "answers {} requests at once in each half second", shared_answers.ANSWERS_PER_SLOT),
]
CHECKS = [
    promise("operations.md", "{} tokens of templates", network_registry.MAX_PROMPT_TOKENS),
    promise("operations.md", "{} operators or filters inside each other", prompt_templates.MAX_EXPRESSION_LEVELS),
    promise("operations.md", "inside each other, {} ifs", prompt_templates.MAX_IF_LEVELS),
    promise("operations.md", "{} letters whose case it changes", prompt_templates.MAX_CASED_CHARS),
    promise("operations.md", "{} sub-schemas, 64 levels, 64 KiB", json_schema.MAX_SUB_SCHEMAS),
    promise("operations.md", "sub-schemas, {} levels, 64 KiB", json_schema.MAX_SCHEMA_DEPTH),
    promise("operations.md", "levels, {} KiB, patterns that take", json_schema.MAX_SCHEMA_BYTES / KIB),
    promise("operations.md", "{} sub-schemas, 64 levels, 65,536", schema_size.MAX_SCHEMA_NODES),
    promise("operations.md", "sub-schemas, {} levels, 65,536 characters", arguments.MAX_DEPTH),
    promise("operations.md", "levels, {} characters, 200,000", arguments.MAX_SCHEMA_CHARS),
    promise("operations.md", "{} steps to follow its references", schema_size.MAX_STEPS),
    promise("provenance.md", "than {} steps to be checked is denied", schema_work.MAX_WORK),
    promise("operations.md", "Of one project {} wait, more are answered with `overloaded`", fair_threads.MAX_WAITING),
    promise("operations.md", "{} requests of one project wait, for 4 s at most", worker_turns.MAX_WAITING),
    promise("operations.md", "requests of one project wait, for {} s at most", worker_turns.WAIT_S),
    promise("operations.md", "names of at most {} characters (`request_invalid`)", registration_checks.MAX_ACTOR_CHARS),
    promise("operations.md", "at most {} lists and objects", MAX_BRACKETS),
    promise("operations.md", "| 1 | {} | 2.5 s |", policy_threads.MAX_WAITING_GRANTS),
    promise("operations.md", "| 2 | {} | 2.5 s | the same", policy_threads.MAX_WAITING_QUESTIONS),
    promise("operations.md", "| 2 | 64 | {} s | the same", policy_threads.MAX_WAIT_S),
    promise("operations.md", "| 1 | 16 | {} s | two seconds", policy_threads.MAX_WAIT_FOR_DIFF_S),
    promise("operations.md", "| {} different ones, 16,384", grants.MAX_CONDITIONS),
    promise("operations.md", "different ones, {} characters together", grants.MAX_CONDITION_CHARS),
    promise("policies.md", "A grant has at most {} different conditions", grants.MAX_CONDITIONS),
    promise("policies.md", "`when` is a condition of at most {} characters", cel.MAX_GRANT_CHARS),
    promise("policies.md", "can only grow, to at most {} grants of", tool_grants.MAX_CHAIN),
    promise("policies.md", "grants of {} entries together", tool_grants.MAX_CHAIN_ENTRIES),
    promise("conversations.md", "which has [{} grants of", tool_grants.MAX_CHAIN),
    promise("conversations.md", "grants of {} entries]", tool_grants.MAX_CHAIN_ENTRIES),
    promise("operations.md", "| {} characters: else `answer_too_large`", policy_threads.MAX_ANSWER_CHARS),
    promise("operations.md", "more than {} rules or", policy_versions.MAX_COMPARED_RULES),
    promise("operations.md", "rules or {} characters of changes", policy_versions.MAX_CHANGES_CHARS),
    promise("operations.md", "{} rules, 250,000 values", policy_document.MAX_RULES),
    promise("operations.md", "rules, {} values,", policy_file.MAX_NODES),
    promise("operations.md", "{} characters of different conditions", policy_size.MAX_CONDITION_CHARS),
    promise("operations.md", "{} different patterns of", policy_size.MAX_PATTERNS),
    promise("operations.md", "different patterns of {} characters", policy_size.MAX_PATTERN_CHARS),
    promise("operations.md", "{} problems are told", policy_file.MAX_PROBLEMS),
    promise("policies.md", "`quorum` (1 to {} people)", policy_document.MAX_QUORUM),
    promise("operations.md", "shadow of more than {} stored characters", loaded_policies.MAX_STORED_CHARS_AT_ONCE),
    promise("operations.md", "or {} characters of conditions and patterns", loaded_policies.MAX_COMPILED_CHARS_AT_ONCE),
    promise("operations.md", "prompts of more than {} characters or", compile_caches.SMALL_CHARS),
    promise("operations.md", "characters or {} tokens in such a thread", compile_caches.SMALL_TOKENS),
    promise("operations.md", "as it keeps them ({} prompts)", compile_caches.PROMPTS_KEPT),
    promise("operations.md", "Of one project {} requests wait for that at most", compile_caches.MAX_WAITING_OF_PROJECT),
    promise("operations.md", "what gets no turn in {} seconds is answered", AUDIT_WAIT_S),
    promise("policies.md", "calls are read {} at a time", policy_diff.CHUNK_CALLS),
]
TURNS = [
    promise("operations.md", "An idempotency key holds for {} hours", submit.KEY_HOURS),
    promise("scheduling.md", "few at a time ({})", handlers.SUBMITS_AT_ONCE),
    promise("scheduling.md", "(below) it takes {} at a time", handlers.SUBMITS_AMONG_WORK),
    promise("scheduling.md", "{} are open in a replica at once", client_requests.OPEN),
    promise("scheduling.md", "at once, {} of one caller", client_requests.OPEN_OF_ONE),
    promise("scheduling.md", "and {} of `anonymous`", client_requests.OPEN_ANONYMOUS),
    promise("scheduling.md", "and {}, 4 and 2 are at work", client_requests.AT_WORK),
    promise("scheduling.md", "and 16, {} and 2 are at work", client_requests.AT_WORK_OF_ONE),
    promise("scheduling.md", "and 16, 4 and {} are at work", client_requests.AT_WORK_ANONYMOUS),
    promise("scheduling.md", "Of `task.cancel` it is {}, 16 and 4,", client_requests.CANCELS),
    promise("scheduling.md", "Of `task.cancel` it is 64, {} and 4,", client_requests.CANCELS_OF_ONE),
    promise("scheduling.md", "Of `task.cancel` it is 64, 16 and {},", client_requests.CANCELS_ANONYMOUS),
    promise("scheduling.md", "{} more of each caller wait", client_requests.WAITING * client_requests.WAITING_SHARE),
    promise("scheduling.md", "waits for longer than {} seconds, is told", client_requests.WAIT_S),
    promise("scheduling.md", "in the last {} batches", inbox.LATELY),
    promise("scheduling.md", "a batch takes at most {} of each caller", inbox.FEW),
    promise("scheduling.md", "for models and {} for scripts and tools", dispatch_windows.QUICK),
    promise("scheduling.md", "at most every {} ms, and every", admission.LOOK_AGAIN_S * 1000),
    promise("scheduling.md", "gives its slots back after {} seconds", rate_policy.LEASE_S),
    promise("scheduling.md", "kept in pieces of {} seconds", rate_policy.INTERVAL_S),
    promise("scheduling.md", "seconds and counted for {}.", rate_policy.MINUTE_S),
    promise("scheduling.md", "that the provider names, {} seconds at most", rate_policy.LONGEST_PAUSE_S),
    promise("scheduling.md", "More wait in their places, for {} seconds", provider_limiter.CROWDED_WAIT_S),
    promise("budgets.md", "A project has {} limits at most", budgets.MOST),
    promise("budgets.md", "days that are more than {} days past are removed", history_tables.KEPT_DAYS),
    promise("budgets.md", "what waits for longer than {} seconds is answered", budgets.WAIT_S),
    promise("policies.md", "at most {} completed ones, newest first", grant_history.MAX_ROOTS),
    promise("policies.md", "out of the newest {} runs", grant_history.MAX_LOOKED),
    promise("provenance.md", "The {} runs before it are read", earlier_runs.MAX_FORKS),
    promise("conversations.md", "but at least {} and at most", threads.LEAST_ROOM),
    promise("approvals.md", "{} notices wait per webhook", webhook_notices.MAX_BACKLOG),
    promise("tools.md", "waits for more than {} ms, and seldom", output_reader.PASS_S * 1000),
    promise("runs.md", "reasoning and the last {} steps", final_state.MAX_STEPS),
]
CALLS = [
    promise("tools.md", "the tool's timeout and {} s. Until then", claims.LEASE_SLACK_MS / 1000),
    promise("policies.md", "lie moments ({} s at most)", claims.START_BY_MS / 1000),
    promise("policies.md", "uses up one of the {} times that a call may be sent", ledger.MAX_ATTEMPTS),
    promise("tools.md", "no answer within {} s, and every other value", probe_runner.PROBE_S),
    promise("tools.md", "shorter than {} characters, ends the call", redaction.MIN_CHARS),
    promise("tools.md", "so may one with more than {} readers", text_readers.MAX_READERS),
    promise("tools.md", "| {}, 1024, 1 GiB |", Sandbox().max_processes),
    promise("tools.md", "it may only read and {} in what it may change", data_folders.MAX_FOLDERS),
    promise("tools.md", "a worker remembers {} while they hold keys", data_folders.MAX_HELD),
    promise("tools.md", "a program may have {} connections", DEFAULT_LIMITS.max_connections),
    promise("tools.md", "each ends after {} MiB", DEFAULT_LIMITS.max_bytes / MIB),
    promise("mcp.md", "A call waits for its run for {} s", tool_calls.WAIT_S),
    promise("mcp.md", "Arguments of more than {} characters are decided in the console", gate_texts.MAX_SHOWN_CHARS),
    promise("mcp.md", "At most {} things are asked at once", gate_questions.MAX_QUESTIONS),
    promise("guides/openai.md", "A request has at most {} messages or items", MAX_ITEMS),
    promise("guides/openai.md", "an AG-UI one {}.", MAX_MESSAGES),
    promise("mcp.md", "which has at most {} values", tool_checks.MAX_ANSWER_VALUES),
    promise("mcp.md", "Schemas: more than {} KiB", tool_checks.MAX_SCHEMA_CHARS / KIB),
    promise("mcp.md", "deeper than {} levels", tool_checks.MAX_SCHEMA_DEPTH),
    promise("mcp.md", "the rest is cut to {} characters", tool_checks.MAX_DESCRIPTION_CHARS),
    promise("mcp.md", "A server may have {} tools", tool_checks.MAX_TOOLS),
    promise("mcp.md", "tools of {} KB together", discovery.MAX_OFFER_BYTES / 1000),
    promise("mcp.md", "with their bytes only up to {} KiB", mcp_answers.INLINE_BINARY_BYTES / KIB),
    promise("mcp.md", "after {}, 2, 4 … 60 s", server.FIRST_PAUSE_S),
    promise("mcp.md", "after 1, 2, 4 … {} s", server.LONGEST_PAUSE_S),
    promise(
        "provenance.md",
        "the beginning is, of a run its first 4 million characters, where each value counts {} more",
        search_budget.PER_LEAF,
    ),
    promise("provenance.md", "of a run its first {} million characters", search_budget.MAX_RUN_CHARS / 10**6),
    promise("provenance.md", "of a result above {} MiB", origin_tables.MAX_BLOB_BYTES / MIB),
    promise("provenance.md", "Of one call {} values are looked up", search_budget.MAX_LEAVES),
    promise("provenance.md", "in {} million characters altogether", search_budget.MAX_SEARCHED / 10**6),
    promise("provenance.md", "where no sentence ({} letters in four words", copied_pieces.MIN_COPIED),
    promise("provenance.md", "or {} sentences and addresses in a call", copied_pieces.MAX_PIECES),
    promise(
        "provenance.md",
        "where compiling its patterns would take longer than {} seconds",
        arguments.MAX_PATTERNS / 10**6,
    ),
    promise("audit.md", "up to {} MB for one piece of a bundle", stored_lines.MAX_BLOB_BYTES / 10**6),
    promise("audit.md", "whose details have more than {} kB", audit_export.MAX_EARLIER_BYTES / 1000),
    promise("audit.md", "(of policies {} kB)", audit_export.MAX_POLICY_BYTES / 1000),
    promise("audit.md", "Payloads above {} kB are not whole", export_piece.MAX_PAYLOAD_BYTES / 1000),
    promise("audit.md", "by more than {} minutes", retention.CLOCK_ALLOWANCE.total_seconds() / 60),
    promise("audit.md", "TAS keeps what up to {} runs have seen", value_origins.MAX_RUNS),
]
MODELS = [
    promise("models.md", "of at most {} tokens of answer", model_checker.OUTPUT_TOKENS),
    promise("models.md", "and gives up after {} s", model_checker.CHECK_LIMIT_S),
    promise("models.md", "tries {} models at a time", model_checker.CHECKS_AT_ONCE),
    promise("models.md", "At most {} MiB of an answer are read", answer_bounds.MAX_BODY_BYTES / MIB),
    promise("models.md", "that is streamed {} MiB with", answer_bounds.MAX_STREAM_BYTES / MIB),
    promise("models.md", "MiB with {} characters", stream_assembly.MAX_STREAMED_CHARS),
    promise("models.md", "with {} values at most in a whole answer", answer_bounds.MAX_VALUES),
    promise("models.md", "which has at most {} lines", answer_bounds.MAX_EVENT_LINES),
    promise("models.md", "{} texts, calls and pieces of arguments", stream_assembly.MAX_PARTS),
    promise("models.md", "agents with more than {} tools", native_tool_calls.MAX_OFFERED),
    promise("models.md", "provider: {} calls in total", conversation.MAX_FAILURES),
    promise("models.md", "with waits of {} s and {} s", *conversation.WAITS_S),
    promise("models.md", "Up to {} s in all are waited for at once", conversation.MAX_WAIT_S),
    promise("agents.md", "no answer in form, or above {} KiB", agent_answers.ANSWER_BYTES / KIB),
    promise("agents.md", "with {} of them the process is not ready", MAX_ABANDONED),
    promise("watchdog.md", "| {} actions in a row", findings.SIMILAR_ACTIONS),
    promise("watchdog.md", "not risen over {} measurements", findings.STALLED_STEPS),
    promise("watchdog.md", "of tool and arguments > {})", similarity.SIMILAR),
    promise("watchdog.md", "It follows the {} runs that moved last", run_memory.RUNS_KEPT),
    promise("watchdog.md", "from at most {} events back", run_memory.WINDOW_EVENTS),
]

DATABASE = [
    promise("reliability.md", "a statement may last, but after {} s", database_hosts.SILENT_AFTER_S),
    promise("reliability.md", "one that does not answer for {} s is left", database_hosts.PROBED_FOR_S),
    promise("reliability.md", "or has said nothing for {} s", database_hosts.HEAD_START_S),
    promise("reliability.md", "or for {} s where it took the last connection", database_hosts.LAST_HEAD_START_S),
    promise("reliability.md", "is asked again every {} s while the other", database_hosts.ASK_AGAIN_S),
    promise("reliability.md", "An attempt ends after {} s", database_hosts.GIVEN_UP_S),
]


@pytest.mark.parametrize("said", [*DOOR, *CHECKS, *TURNS, *CALLS, *MODELS, *DATABASE], ids=lambda said: said.sentence)
def test_a_page_tells_the_limit_that_a_service_has(said: Promise) -> None:
    assert said.holds, f"docs/{said.page} does not say: {said.told}"


def test_a_notice_is_tried_for_as_long_as_the_page_says() -> None:
    assert promise("approvals.md", "tried again after 5 s, 30 s, 2 min … 8 h, eleven times in about 25 hours").holds
    waits = webhook_notices.RETRY_S
    assert (waits[:3], waits[-1], len(waits) + 1) == ((5, 30, 120), 8 * 3_600, 11)
    assert round(sum(waits) / 3_600) in (23, 24, 25)
