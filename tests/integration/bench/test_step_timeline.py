"""The time line of a step has every hop of it, in the order in which they happen."""

from step_timeline import measure, table
from timeline.picture import on_the_path, svg

PATH = [
    ("orchestrator", "decider", "decide.default"),
    ("decider", "orchestrator", "run.inbox.decider.*"),
    ("orchestrator", "tas", "tool.request"),
    ("tas", "worker", "tool.exec.default.bench"),
    ("worker", "tas", "tool.outcome"),
    ("tas", "orchestrator", "run.inbox.tas.*"),
]
ACKNOWLEDGED = {"ack DECIDE", "ack INBOX", "ack TOOLREQ", "ack TOOLEXEC", "ack TOOLOUT"}


async def test_every_hop_of_a_step_is_in_the_time_line_in_order() -> None:
    timeline = await measure(8, "pure", favour=False, warm_up_runs=1, starts="fork")
    step = timeline.step
    path = on_the_path(step)
    assert [(hop.sender, hop.receiver, hop.subject) for hop in path] == PATH
    assert {hop.kind for hop in path} == {"stream"}
    assert [hop.after for hop in path] == [hop.subject for hop in (path[-1], *path[:-1])]
    assert step.steps == 6
    sent = [hop.sent_ms for hop in path]
    assert sent == sorted(sent)
    assert (sent[0], sent[-1] < step.ms) == (0.0, True)
    assert all(hop.sent_ms <= hop.received_ms for hop in path)
    others = {(hop.sender, hop.receiver, hop.subject) for hop in step.hops} - set(PATH)
    acknowledged = {subject for _, receiver, subject in others if receiver == "broker"}
    assert acknowledged - {"ack EVENTS"} == ACKNOWLEDGED  # those come in batches, seldom within a step
    assert ("orchestrator", "log_writer", "run.event.*") in others
    assert ("broker", "decider", "stored") in others
    assert any(sender == "tas" and subject.startswith("tool.confirm.") for sender, _, subject in others)
    assert timeline.usage.keys() >= {"orchestrator", "decider", "tas", "worker", "log_writer", "nats", "postgres"}
    assert all(timeline.usage[role].cpu_ms > 0 for role in ("orchestrator", "decider", "tas", "worker", "nats"))
    assert all(hop.subject in table(step, timeline.usage) for hop in step.hops)
    assert svg(step).count('class="path"') == len(PATH)
