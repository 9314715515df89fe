"""Times that belong together fit: who answers gives up before who asks, signs of life come before they are missed."""

import pytest

from towpath.client import http, retry_policy
from towpath.client import nats as client_nats
from towpath_contracts import authority
from towpath_contracts.tools import workers
from towpath_decider.app import model_checker, provider_limiter
from towpath_decider.core import rate_policy
from towpath_embedded import platform_state
from towpath_embedded.processes import role_process
from towpath_embedded.terminal import server_watch
from towpath_fabric.nats import (
    bus,
    clusters,
    long_requests,
    pull_consumer,
    replies,
    request_sender,
    stream_publisher,
)
from towpath_fabric.postgres import database_probe
from towpath_fabric.settings import Settings
from towpath_fabric.turns import fair_request_queue
from towpath_gateway.adapters import key_store, platform_client
from towpath_gateway.app import event_stream
from towpath_gateway.app.routes import grants, policies
from towpath_gateway.app.routes.operations import models
from towpath_gateway.app.routes.operations import workers as workers_page
from towpath_orchestrator.app.api import (
    budgets,
    client_requests,
    commands,
    grant_history,
    network_registry,
    run_control,
    run_views,
    submit,
)
from towpath_tas.app import queue_queries, worker_turns
from towpath_tas.app.calls import stop_switches
from towpath_tas.app.policy import policy_threads
from towpath_tas.core.calls import claims
from towpath_tas.wiring.audit_wiring import AUDIT_WAIT_S
from towpath_worker.app import outcome_outbox

GIVES_UP_FIRST = {
    "a model that is tried, and the gateway": (model_checker.CHECK_LIMIT_S, models.CHECK_WAIT_S),
    "the gateway's wait for a tried model, and the client": (models.CHECK_WAIT_S, http.ANSWER_TIMEOUT_S),
    "a task's way into the database, and the gateway": (submit.SUBMIT_TIMEOUT_S, platform_client.SUBMIT_WAIT_S),
    "the gateway's wait for a task, and the client": (platform_client.SUBMIT_WAIT_S, http.ANSWER_TIMEOUT_S),
    "a count of past runs, and the gateway": (grant_history.COUNT_TIMEOUT_S, grants.HISTORY_TIMEOUT_S),
    "the gateway's wait for past runs, and the client": (grants.HISTORY_TIMEOUT_S, http.ANSWER_TIMEOUT_S),
    "the gateway's wait for a proposal, and the client": (grants.ANSWER_WAIT_S, http.ANSWER_TIMEOUT_S),
    "the gateway's wait for an analysis, and the client": (policies.ANALYSIS_TIMEOUT_S, http.ANSWER_TIMEOUT_S),
    "a worker's turn, and its request": (worker_turns.WAIT_S, bus.REQUEST_TIMEOUT_S),
    "a long request's turn, and the request": (long_requests.WAIT_S, bus.REQUEST_TIMEOUT_S),
    "a switch's turn, and its request": (stop_switches.SET_WAIT_S, bus.REQUEST_TIMEOUT_S),
    "a turn at the audit, and its request": (AUDIT_WAIT_S, bus.REQUEST_TIMEOUT_S),
    "a network's turn, and its request": (network_registry.WAIT_S, bus.REQUEST_TIMEOUT_S),
    "a turn at asking about queues, and its request": (queue_queries.WAIT_S, bus.REQUEST_TIMEOUT_S),
    "a limit's turn, and its request": (budgets.WAIT_S, bus.REQUEST_TIMEOUT_S),
    "a cancel's way into the log, and its request": (commands.FOLDED_WITHIN_S, bus.REQUEST_TIMEOUT_S),
    "a pause's way into the log, and its request": (run_control.FOLDED_WITHIN_S, bus.REQUEST_TIMEOUT_S),
    "a turn of a run of a tree, and who pauses the tree": (run_control.WAIT_S, client_nats.STEERING_TIMEOUT_S),
    "a turn at the policy's threads, and its request": (policy_threads.MAX_WAIT_S, bus.REQUEST_TIMEOUT_S),
}


def test_a_run_is_read_without_its_queues_long_before_its_reader_gives_up() -> None:
    """A person takes two seconds for slow, and ten for broken."""
    assert platform_client.QUEUES_WAIT_S == 1.5
    assert platform_client.QUEUES_WAIT_S < queue_queries.WAIT_S < bus.REQUEST_TIMEOUT_S < http.ANSWER_TIMEOUT_S


@pytest.mark.parametrize("pair", GIVES_UP_FIRST)
def test_who_answers_gives_up_before_who_asks(pair: str) -> None:
    answers, asks = GIVES_UP_FIRST[pair]
    assert 0.4 * asks <= answers < asks or answers == policy_threads.MAX_WAIT_S < asks


def test_a_worker_is_gone_when_three_of_its_words_are_missing_and_stays_listed_for_ten_minutes() -> None:
    assert 3 * workers.BEAT_S < workers.GONE_S <= 4 * workers.BEAT_S
    listed = "one that is gone for ten minutes longer"
    assert listed in (workers_page.list_workers.__doc__ or "") and workers.FORGOTTEN_S == 10 * 60


SIGNS_OF_LIFE = {
    "pings of a stream": (event_stream.PING_S, http.SILENCE_S),
    "heartbeats of a fetch": (pull_consumer.HEARTBEAT_S, pull_consumer.LOST_S),
    "heartbeats of a fetch from a cluster": (clusters.CLUSTER_HEARTBEAT_S, clusters.CLUSTER_LOST_S),
}


@pytest.mark.parametrize("pair", SIGNS_OF_LIFE)
def test_a_sign_of_life_comes_twice_before_it_is_missed_and_is_not_waited_for_much_longer(pair: str) -> None:
    every, missed = SIGNS_OF_LIFE[pair]
    assert 2 * every < missed < 4 * every


def test_a_silent_database_is_told_before_a_request_is_tried_for_the_fourth_time() -> None:
    """One look later, a try would begin anew whose answer comes too late."""
    tries = request_sender.FIRST_SILENCE_S * (1 + 2 + 4)
    told = replies.LOOKS_AFTER_S + database_probe.SILENT_AFTER_S
    assert told == 3.0 < tries < bus.REQUEST_TIMEOUT_S and request_sender.MAX_REPEATS == 3
    assert authority.MAX_REPLIES == 2 * request_sender.MAX_REPEATS + 1
    assert replies.LOOKS_AFTER_S == 3 * database_probe.BELIEVED_S
    assert told < key_store.ANSWER_S < bus.REQUEST_TIMEOUT_S


def test_a_person_is_told_of_a_long_silence_in_the_time_of_the_first_answer() -> None:
    told = replies.LOOKS_AFTER_S + database_probe.SILENT_AFTER_S
    assert told - 1 == retry_policy.TOLD_AFTER_S == server_watch.SILENT_AFTER_S == 2 * server_watch.POLL_S


def test_a_heartbeat_of_a_call_comes_before_its_lease_is_over() -> None:
    assert outcome_outbox.HEARTBEAT_S < claims.LEASE_SLACK_MS / 1_000 <= 2 * outcome_outbox.HEARTBEAT_S


def test_a_decider_renews_its_slots_twice_before_they_go_to_others() -> None:
    assert 2 * provider_limiter.RENEW_S + provider_limiter.MARGIN_S < rate_policy.LEASE_S


def test_a_process_of_the_platform_is_killed_only_after_it_had_its_time_to_end() -> None:
    grace = Settings.model_fields["stop_grace_s"].default
    assert grace + role_process.CLOSE_S <= role_process.STOP_TIMEOUT_S < 2 * grace
    assert grace < platform_state.PREDECESSOR_TIMEOUT_S < 2 * grace


def test_what_waits_for_its_turn_waits_as_long_wherever_a_client_asks() -> None:
    assert client_requests.WAIT_S == run_views.WAIT_S == bus.REQUEST_TIMEOUT_S


def test_the_waiting_requests_of_one_caller_take_a_part_of_the_room_for_all() -> None:
    assert fair_request_queue.WAITING_BYTES_OF_ONE * 4 == fair_request_queue.WAITING_BYTES


ELECTION_S = 9
"""What nats-server waits at most before it elects another leader; it has no setting for that."""


def test_a_lost_node_of_a_cluster_is_noticed_before_its_work_has_another_leader() -> None:
    assert 2 < clusters.CLUSTER_LOST_S < 4
    assert 0.5 < clusters.CLUSTER_PING_S < 4 / 3, "a frozen node is left at the fourth ping at the latest"


def test_work_is_sent_again_often_while_there_is_no_leader_and_held_for_two_elections() -> None:
    assert 0.5 < stream_publisher.AGAIN_S < 1
    assert 2 * ELECTION_S < stream_publisher.GIVEN_UP_S < 3 * ELECTION_S
    assert 5_000 < stream_publisher.MAX_POSTS < 20_000
    assert 32 * 1024**2 < stream_publisher.MAX_POSTED_BYTES < 128 * 1024**2
