"""The platform on one machine is where clients look for it, and the broker keeps what pages and services count on."""

import re
from pathlib import Path

import pytest
from tests.support.documented_limits import KIB, promise

from towpath.client.settings import DEFAULT_SERVER
from towpath.tools import declaration
from towpath_contracts.streams import MIB, STREAMS
from towpath_contracts.tools.calls import ToolSpec
from towpath_embedded.servers import nats
from towpath_embedded.start_checks import UpOptions
from towpath_embedded.start_hints import GATEWAY_PORT, NATS_PORT
from towpath_fabric.http.connections import TAKEN_BYTES, ConnectionLimits
from towpath_fabric.settings import Settings
from towpath_gateway.settings import GatewaySettings
from towpath_worker.app.worker import DEFAULT_CONCURRENCY, WorkerOptions
from towpath_worker.settings import WorkerSettings

BY_NAME = {stream.name: stream for stream in STREAMS}
DAY_S = 24 * 3_600


def test_clients_look_for_the_platform_where_it_listens() -> None:
    assert f"http://127.0.0.1:{GATEWAY_PORT}" == DEFAULT_SERVER
    assert GatewaySettings.model_fields["gateway_port"].default == GATEWAY_PORT
    assert Settings.model_fields["nats_url"].default == f"nats://127.0.0.1:{NATS_PORT}"


def test_a_platform_that_is_started_without_options_keeps_its_data_and_opens_nothing() -> None:
    options = UpOptions(data=Path(), gateway_port=None, nats_port=None)
    assert not (options.ephemeral or options.single_person or options.servers_only)
    assert not (options.as_json or options.logs)
    assert promise("tools.md", "**The default is `none`**").holds
    assert options.sandbox == "none" == WorkerSettings.model_fields["worker_sandbox"].default


def test_a_worker_runs_as_many_calls_at_once_whoever_starts_it() -> None:
    assert WorkerOptions.__dataclass_fields__["concurrency"].default == DEFAULT_CONCURRENCY
    assert WorkerSettings.model_fields["worker_concurrency"].default == DEFAULT_CONCURRENCY


@pytest.mark.parametrize(("text", "seconds"), [("250ms", 0.25), ("20s", 20), ("5m", 300), ("2h", 7_200)])
def test_times_of_a_tool_are_read_in_their_units(text: str, seconds: float) -> None:
    assert declaration.seconds(text) == seconds


def test_a_tool_that_says_no_time_has_that_of_its_declaration_on_the_wire() -> None:
    assert ToolSpec.model_fields["timeout_ms"].default == declaration.DEFAULT_TIMEOUT_S * 1_000


def test_events_and_logs_are_there_for_a_day_and_work_until_it_is_done() -> None:
    assert promise("operations.md", "The broker's copies of events and logs are there for 24 hours").holds
    assert [BY_NAME[name].max_age_s for name in ("EVENTS", "LOGS")] == [DAY_S, DAY_S]
    work = [stream for stream in STREAMS if stream.retention == "workqueue"]
    assert {(stream.max_age_s, stream.max_msgs, stream.max_msgs_per_subject) for stream in work} == {(0, -1, -1)}
    assert not any(stream.allow_direct for stream in work)


def test_a_repeated_publish_of_work_is_known_for_longer_than_any_publisher_repeats_it() -> None:
    assert {stream.duplicate_window_s for stream in STREAMS if stream.retention == "workqueue"} == {2 * 60}


def test_streams_take_the_messages_that_the_broker_takes_and_fit_into_its_store() -> None:
    assert {stream.max_msg_size for stream in STREAMS} == {MIB} == {_bytes(nats.MAX_PAYLOAD)}
    room = _bytes(nats.MAX_FILE_STORE) / sum(stream.max_bytes for stream in STREAMS)
    assert 1.5 < room < 2.5, "about twice of what the streams may hold"


def test_a_client_that_does_not_take_its_answer_is_cut_off_as_the_page_says() -> None:
    limits = ConnectionLimits(header_s=1, strangers=1, idle=1)
    said = "takes less than {} KiB of a waiting answer in {} s is closed"
    assert promise("operations.md", said, TAKEN_BYTES / KIB, limits.taken_s).holds


def _bytes(size: str) -> int:
    found = re.fullmatch(r"(\d+)(MB|GB)", size)
    assert found is not None
    return int(found[1]) * {"MB": 1024**2, "GB": 1024**3}[found[2]]
