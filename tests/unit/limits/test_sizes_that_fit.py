"""Sizes that belong together fit: what travels in one message is no larger than the broker carries."""

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from towpath_contracts.dead_letters import DeadLetterPage, ReportDeadLetter
from towpath_contracts.events.log import GateOpened, LogEntry
from towpath_contracts.grant_proposals.proposals import CountUsedTools
from towpath_contracts.networks.spec import NetworkVersion
from towpath_contracts.tools.access import AuditPage
from towpath_decider.app import decision_service
from towpath_embedded.servers import nats
from towpath_fabric import dead_letter_reports, dead_letters
from towpath_fabric.nats.replies import HEADERS_ROOM
from towpath_gateway.app.routes import records
from towpath_log_writer.app import history_queries
from towpath_orchestrator.adapters import batch_rows
from towpath_orchestrator.app.api import dead_letters as letter_queries
from towpath_orchestrator.app.api import forks, grant_history, network_registry, queries, replay_requests, run_questions
from towpath_orchestrator.app.commit import output_reader
from towpath_orchestrator.app.dispatch import publishers
from towpath_orchestrator.core import inbox_messages, tasks
from towpath_tas.app.audit import audit_queries
from towpath_tas.app.calls import run_ancestors

LARGEST = 1024 * 1024
AT = datetime(2026, 11, 26, 12, 30, 59, 123_456, tzinfo=UTC)
CONTEXT_BYTES = 200_000
"""Of an agent's context, which goes on in a fork beside what the fork inherits."""

ENVELOPE = 64 * 1024
"""More than there is around what a message carries."""

ONE_MESSAGE = {
    "a page of dead letters": letter_queries.ANSWER_BYTES,
    "a page of history": history_queries.ANSWER_BYTES,
    "the first event of a run": tasks.MAX_CREATED_BYTES,
    "a request": publishers.MAX_BODY_BYTES - ENVELOPE,
    "a fork's context and what it inherits": CONTEXT_BYTES + forks.MAX_INHERITED_BYTES,
    "a fact and the decision before it": inbox_messages.MAX_FACT_BYTES + inbox_messages.MAX_DECISION_BYTES,
    "a prompt and its answer, letters of the alphabet": 2 * decision_service.BODY_CHARS,
    "an answer, and the repair of it": decision_service.ANSWER_BYTES * 3 // 2,
}


@pytest.mark.parametrize("what", ONE_MESSAGE)
def test_what_travels_in_one_message_fits_it(what: str) -> None:
    assert LARGEST / 2 < ONE_MESSAGE[what] <= LARGEST - ENVELOPE


def test_a_message_that_can_not_be_handled_fits_its_report() -> None:
    report = ReportDeadLetter(
        stream="EVENTS", subject="s" * 512, reason="r" * 2_000, body_base64="", delivery=2**63 - 1
    )
    size = len(report.model_dump_json()) + 4 * dead_letter_reports.MAX_BODY / 3
    assert LARGEST / 2 < size < LARGEST - HEADERS_ROOM


def test_every_message_that_the_broker_carries_is_kept_whole() -> None:
    letter: Any = dead_letters.UndeliverableMessage(message=None, reason="")  # type: ignore[arg-type]
    row = dead_letters._LetterRow(subject="s", body=b"", reason="", delivery=1, owner=dead_letters.UNKNOWN_OWNER)
    assert nats.MAX_PAYLOAD == "1MB"
    assert letter.kept_bytes == row.kept_bytes == LARGEST


def test_letters_that_are_shown_together_fit_an_answer() -> None:
    row = {"at": AT, "stream": "EVENTS", "subject": "s", "reason": "r" * 2_000, "failures": 1, "status": "dead"}
    rows = [{**row, "dead_letter_id": number, "size": 1, "body": None} for number in range(900)]
    page = DeadLetterPage(letters=letter_queries._fitting(rows))
    assert 0.8 * LARGEST < len(page.model_dump_json()) < LARGEST - HEADERS_ROOM


LONGEST_NAMES = {
    **dict.fromkeys(("project", "caller", "operation"), "n" * 64),
    **dict.fromkeys(("tool", "network", "agent_key", "rule"), "n" * 128),
}


@pytest.mark.parametrize("actor", ["mia", '"' * 256, "\x01" * 256, "\U0001f600" * 256])
def test_entries_of_the_audit_that_are_shown_together_fit_an_answer_whoever_acted(actor: str) -> None:
    row = {**LONGEST_NAMES, "entry_id": 2**62, "at": AT, "run_id": UUID(int=2**127), "execution_id": UUID(int=2**127)}
    row |= {"phase": "outcome", "verdict": "failed", "actor": actor, "policy_version": 2**31 - 1}
    row |= {"args_digest": f"sha256:{'0' * 64}", "erased": False, "detail": json.dumps({"reason": "r" * 500})}
    page = AuditPage(entries=tuple(map(audit_queries._entry, audit_queries._fitting([row] * 1_000))), total=10_000)
    assert 0.6 * LARGEST < len(page.model_dump_json().encode()) < LARGEST - ENVELOPE


def test_a_gate_fits_the_index_that_it_is_found_by_and_has_the_whole_name_of_its_tool() -> None:
    """An entry of a B-tree of Postgres has at most 2,704 bytes: with more a gate could not be closed."""

    def named(name: str) -> tuple[str, str]:
        detail = {"tool": name, "rule": name}
        opened = GateOpened(gate_id=UUID(int=1), gate_type="manual", reason="", detail=detail, expires_at=AT)
        state = SimpleNamespace(run_id=UUID(int=1), created=SimpleNamespace(project="p", network="n"))
        batch: Any = [SimpleNamespace(state=state, entries=[LogEntry(seq=1, at=AT, event=opened)])]
        (row,) = json.loads(batch_rows.opened_gates(batch))
        return row["tool"], row["rule"]

    assert named("n" * 128) == ("n" * 128, "n" * 128)
    project, closed_at, gate_id, header = 64, 8, 16, 32
    texts = sum(len(text.encode()) for text in named("\U0001f600" * 900))
    assert texts + project + closed_at + gate_id + header <= 2_704


def test_runs_whose_tools_are_counted_are_named_in_one_question() -> None:
    names = (UUID(int=2**127),) * grant_history.MAX_RUNS
    question = CountUsedTools(project="p", roots=names, runs=names)
    assert LARGEST / 2 < len(question.model_dump_json()) < LARGEST - ENVELOPE


def test_a_list_has_as_many_networks_as_one_message_holds() -> None:
    """More are not read in vain, and fewer are no reason to refuse the list."""
    shortest = NetworkVersion(
        project="p", name="n", version=1, digest=f"sha256:{'0' * 64}", published_at=AT, published_by="a"
    )
    assert LARGEST < network_registry.MAX_LISTED * len(shortest.model_dump_json()) < 1.5 * LARGEST


def test_a_piece_of_a_blob_is_found_wherever_postgres_counts() -> None:
    """A bytea has at most 1 GB, and the places in it are 32 bits long."""
    assert 10**9 <= queries.MAX_CHUNKS * queries.CHUNK_BYTES < 2**31


def test_an_output_is_found_in_as_many_forks_as_its_origin_is() -> None:
    assert output_reader.MAX_ANCESTORS == run_ancestors.MAX_ANCESTORS


def test_a_replay_waits_no_longer_for_its_turn_than_the_gateway_for_its_answer() -> None:
    assert replay_requests.WAIT_S <= records.REPLAY_WAIT_S


def test_questions_of_one_project_leave_places_to_those_of_others() -> None:
    assert run_questions.OPEN_OF_ONE <= run_questions.OPEN / 2
    assert run_questions.WAITING_SHARE <= 1 / 3
