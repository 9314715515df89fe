"""A time line is read from what a listener heard."""

from xml.etree import ElementTree as ET

import pytest

from timeline.hops import median_step, messages_of
from timeline.picture import on_the_path, svg
from timeline.tap import SeenMessage, messages

RUN = "01a2094a-0b72-7684-ba40-bad279556df9"
SECOND_NS = 1_000_000_000


def delivery(subject: str, consumer: str, sent_ms: float, heard_ms: float) -> SeenMessage:
    """A message in a stream; the time of a delivery is that of the chunk in which it was read."""
    stored = int(SECOND_NS + sent_ms * 1_000_000)
    return SeenMessage(1 + heard_ms / 1000, subject, f"$JS.ACK.{consumer}.1.5.5.{stored}.0", b"{}")


def steps(count: int) -> list[SeenMessage]:
    """Steps of 10 ms: the decider answers 2 ms after it heard, the orchestrator asks again 5 ms after that."""
    seen = []
    for n in range(count):
        began = n * 10
        seen.append(delivery("decide.default", "DECIDE.decide_default", began, began + 1))
        seen.append(delivery(f"run.inbox.decider.{RUN}", "INBOX.orchestrator", began + 3, began + 5))
        seen.append(SeenMessage(1 + (began + 4) / 1000, "_INBOX_decider.x.1", "", b'{"stream":"INBOX","seq":1}'))
        ack = f"$JS.ACK.DECIDE.decide_default.1.5.5.{SECOND_NS}.0"
        seen.append(SeenMessage(1 + (began + 4.5) / 1000, ack, "", b"+ACK"))
    return seen


def test_a_hop_has_its_sender_its_receiver_its_times_and_its_wait() -> None:
    step = median_step(messages_of(steps(6)))
    assert (step.ms, step.steps) == (10, 3)
    asked, answered, stored, acknowledged = step.hops
    assert asked[:4] == ("orchestrator", "decider", "decide.default", "stream")
    assert (asked.sent_ms, asked.received_ms, asked.broker_ms) == (0, 1, 1)
    assert (asked.after, asked.waited_ms) == ("run.inbox.decider.*", 5)
    assert answered[:4] == ("decider", "orchestrator", "run.inbox.decider.*", "stream")
    assert (answered.sent_ms, answered.received_ms, answered.after, answered.waited_ms) == (3, 5, "decide.default", 2)
    assert stored[:4] == ("broker", "decider", "stored", "core")
    assert stored.after == ""
    assert acknowledged[:4] == ("decider", "broker", "ack DECIDE", "core")
    assert (acknowledged.after, acknowledged.waited_ms) == ("stored", 0.5)


def test_both_forms_of_an_acknowledgement_are_read() -> None:
    old, new = "$JS.ACK.DECIDE.decide_x.1.5.5.7.0", "$JS.ACK._.hash.DECIDE.decide_x.1.5.5.7.0.random"
    found = messages_of(SeenMessage(1, "decide.x", reply, b"") for reply in (old, new))
    assert [(one.receiver, one.sent_s) for one in found] == [("decider", 7e-9)] * 2


def test_few_decisions_have_no_median_step() -> None:
    with pytest.raises(ValueError, match="3 decisions"):
        median_step(messages_of(steps(3)))


def test_what_a_broker_sends_is_read_however_it_is_cut() -> None:
    sent = b"INFO {}\r\nPONG\r\nMSG a 1 2\r\nhi\r\nMSG b 1 re.1 3\r\nMSG\r\n"
    sent += b"HMSG c 1 12 14\r\nNATS/1.0\r\n\r\nhi\r\nPING\r\nHMSG d 1 re.2 12 12\r\nNATS/1.0\r\n\r\n\r\n"
    wanted = [("a", "", b"hi"), ("b", "re.1", b"MSG"), ("c", "", b"hi"), ("d", "re.2", b"")]
    for size in (1, 7, len(sent)):
        chunks = [(float(at), sent[at : at + size]) for at in range(0, len(sent), size)]
        found = list(messages(chunks))
        assert [one[1:] for one in found] == wanted
        assert [one.at_s for one in found] == sorted(one.at_s for one in found)
    with pytest.raises(ValueError, match="not what a broker sends"):
        list(messages([(0.0, b"HTTP/1.1 400\r\n")]))


def test_the_picture_has_an_arrow_and_a_line_for_each_message_that_the_step_waits_for() -> None:
    step = median_step(messages_of(steps(6)))
    assert [hop.subject for hop in on_the_path(step)] == ["decide.default", "run.inbox.decider.*"]
    drawn = ET.fromstring(svg(step))
    texts = ["".join(part.itertext()) for part in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert "A lone step: 10.0 ms, the median of 3" in texts
    assert sum("sent after" in text for text in texts) == 2
    arrows = [part for part in drawn.iter("{http://www.w3.org/2000/svg}line") if part.get("class") == "path"]
    assert len(arrows) == 2
