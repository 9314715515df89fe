"""Messages, HTTP operations, subjects, streams and problem codes stay compatible with what is checked in."""

from pathlib import Path

import pytest
from tests.support import wire_limits, wire_summary
from tests.support.wire_summary import COMMAND, FILE, Entries, Field, breaks, lines, wire, written

OLD = """\
# a comment
Order (strict): item! str, count int, colour 'red'|'blue',
  parts [Part]?, note {str}
Part: name! str
Nothing:
Event: = event.a|event.b
GET /v1/orders/{id}: path.id! uuid, query.limit int, 200 Order, 404 order_unknown
subject order.new.{caller}: takes Order, answers Part|Problem, by ORDERS
"""


@pytest.fixture(scope="module")
def now() -> Entries:
    return wire()


def test_nothing_that_a_peer_or_a_client_relies_on_goes_away(now: Entries) -> None:
    broken = breaks(written(FILE.read_text("utf-8")), now)
    assert broken == [], f"keep what is there, or, before a release and with a note: {COMMAND} --breaking"


def test_the_summary_of_the_wire_is_up_to_date(now: Entries) -> None:
    assert written(FILE.read_text("utf-8")) == now, f"run: {COMMAND}"


def test_what_is_written_is_read_as_it_was(now: Entries) -> None:
    assert written(lines(now)) == now
    assert max(map(len, lines(now).splitlines())) <= 120
    assert written(OLD)["Order (strict)"]["parts"] == Field(False, "[Part]?")
    assert written(OLD)["Nothing"] == {}


def test_the_summary_has_messages_operations_subjects_streams_and_problems(now: Entries) -> None:
    assert now["SubmitTask (strict)"]["network"] == Field(True, "str")
    assert not now["SubmitTask (strict)"]["user_message"].required
    assert now["event.child_stopped"]["child_id"] == Field(True, "uuid")
    assert now["fact.gate.resolved"]["type"].kind == "'gate.resolved'"
    assert now["GET /v1/runs"]["200"] == Field(False, "RunPage")
    assert now["POST /v1/runs"]["body"].required
    assert now["subject svc.tas.claim_start"]["answers"].kind == "ClaimAnswer|Problem"
    assert now["stream INBOX"]["subjects"].kind == "run.inbox.>"
    assert now["problem network_not_found"]["status"].kind == "404"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("Part: name! str\n", ""), "Part is gone"),
        (("Part: ", "Piece: "), "Part is gone"),
        (("count int, ", ""), "Order (strict): count is gone"),
        (("count int", "amount int"), "Order (strict): count is gone"),
        (("count int", "count! int"), "Order (strict): count is required now"),
        (("count int", "count int, why! str"), "Order (strict): why is new and required"),
        (("count int", "count str"), "Order (strict): count was int, is str"),
        (("'red'|'blue'", "'red'"), "Order (strict): colour was 'red'|'blue', is 'red'"),
        (("[Part]?", "[Part]"), "Order (strict): parts was [Part]?, is [Part]"),
        (("event.a|event.b", "event.b"), "Event: = was event.a|event.b, is event.b"),
        (("Part: name", "Part (strict): name"), "Part refuses unknown fields now"),
        (("GET /v1/orders/", "GET /v1/order/"), "GET /v1/orders/{id} is gone"),
        (("query.limit int, ", ""), "GET /v1/orders/{id}: query.limit is gone"),
        (("200 Order", "200 Part"), "GET /v1/orders/{id}: 200 was Order, is Part"),
        (("order.new", "orders.new"), "subject order.new.{caller} is gone"),
        (("by ORDERS", "by core"), "subject order.new.{caller}: by was ORDERS, is core"),
    ],
)
def test_what_breaks_compatibility_is_reported(change: tuple[str, str], sentence: str) -> None:
    assert breaks(written(OLD), written(OLD.replace(*change))) == [sentence]


@pytest.mark.parametrize(
    "change",
    [
        ("count int", "count int, why str"),
        ("item! str", "item str"),
        ("count int", "count int|str?"),
        ("'blue'", "'blue'|'green'"),
        ("[Part]?", "[Part|Order]?"),
        ("{str}", "any"),
        ("Order (strict): ", "Order: "),
        ("Part: name", "New: name! str\nPart: name"),
        ("item! str, count int", "count int, item! str"),
    ],
)
def test_additions_break_nothing(change: tuple[str, str]) -> None:
    assert OLD.replace(*change) != OLD
    assert breaks(written(OLD), written(OLD.replace(*change))) == []


def test_a_breaking_change_is_written_only_if_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], now: Entries
) -> None:
    monkeypatch.setattr(wire_summary, "FILE", tmp_path / "wire.txt")
    monkeypatch.setattr(wire_summary, "wire", lambda: now)
    monkeypatch.setattr(wire_limits, "FILE", tmp_path / "limits.txt")
    wire_summary.FILE.write_text(OLD)
    assert wire_summary.main(["write"]) == 1
    assert "Part is gone" in capsys.readouterr().err
    assert wire_summary.FILE.read_text() == OLD
    assert not wire_limits.FILE.exists()
    assert wire_summary.main(["write", "--breaking"]) == 0
    assert wire_limits.FILE.read_text() == wire_limits.lines(wire_limits.limits())
    assert wire_summary.FILE.read_text() == lines(now)
    assert wire_summary.main([]) == 2
