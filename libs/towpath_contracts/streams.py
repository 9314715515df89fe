"""Every stream and consumer, declared once.

Work streams discard new messages when full, so that a flood is refused at the door; `max_deliver` is unlimited,
since failures are counted in Postgres. Times are seconds, sizes bytes.
"""

from dataclasses import dataclass
from typing import Literal

from towpath_contracts import subjects

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSpec:
    """A JetStream stream as the platform wants it."""

    name: str
    subjects: tuple[str, ...]
    retention: Literal["workqueue", "limits"]
    discard: Literal["new", "old"]
    max_bytes: int
    max_age_s: float = 0
    max_msgs: int = -1
    max_msg_size: int = MIB
    max_msgs_per_subject: int = -1
    allow_direct: bool = False
    duplicate_window_s: float = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSpec:
    """A durable pull consumer as the platform wants it.

    With `ack_all` one ack stands for every earlier message too: for readers that take a stream in order, in batches.
    """

    stream: str
    durable: str
    filter_subject: str
    ack_wait_s: float
    max_ack_pending: int
    ack_all: bool = False


STREAMS: tuple[StreamSpec, ...] = (
    StreamSpec(
        name="TASKS", subjects=(subjects.TASK_ENQUEUE_ALL,), retention="workqueue", discard="new", max_bytes=256 * MIB
    ),
    StreamSpec(
        name="INBOX", subjects=(subjects.RUN_INBOX_ALL,), retention="workqueue", discard="new", max_bytes=1024 * MIB
    ),
    StreamSpec(
        name="DECIDE", subjects=(subjects.DECIDE_ALL,), retention="workqueue", discard="new", max_bytes=1024 * MIB
    ),
    StreamSpec(
        name="TOOLREQ", subjects=(subjects.TOOL_REQUEST,), retention="workqueue", discard="new", max_bytes=512 * MIB
    ),
    StreamSpec(
        name="TOOLEXEC", subjects=(subjects.TOOL_EXEC_ALL,), retention="workqueue", discard="new", max_bytes=512 * MIB
    ),
    StreamSpec(
        name="TOOLOUT", subjects=(subjects.TOOL_OUTCOME,), retention="workqueue", discard="new", max_bytes=512 * MIB
    ),
    StreamSpec(
        name="EVENTS",
        subjects=(subjects.RUN_EVENT_ALL,),
        retention="limits",
        discard="old",
        max_bytes=1024 * MIB,
        max_age_s=24 * 3600,
        duplicate_window_s=1,
    ),
    StreamSpec(
        name="REGISTERS",
        subjects=(subjects.REGISTER_ALL,),
        retention="limits",
        discard="old",
        max_bytes=16 * MIB,
        max_age_s=3600,
        max_msgs_per_subject=1,
        allow_direct=True,
        duplicate_window_s=1,
    ),
    StreamSpec(
        name="LOGS",
        subjects=(subjects.LOG_ALL,),
        retention="limits",
        discard="old",
        max_bytes=512 * MIB,
        max_age_s=24 * 3600,
        duplicate_window_s=1,
    ),
)

TASKS_CONSUMER = ConsumerSpec(
    stream="TASKS",
    durable="orchestrator",
    filter_subject=subjects.TASK_ENQUEUE_ALL,
    ack_wait_s=5,
    max_ack_pending=1_024,
)
INBOX_CONSUMER = ConsumerSpec(
    stream="INBOX", durable="orchestrator", filter_subject=subjects.RUN_INBOX_ALL, ack_wait_s=5, max_ack_pending=4_096
)
TOOLREQ_CONSUMER = ConsumerSpec(
    stream="TOOLREQ", durable="tas", filter_subject=subjects.TOOL_REQUEST, ack_wait_s=5, max_ack_pending=4_096
)
TOOLOUT_CONSUMER = ConsumerSpec(
    stream="TOOLOUT", durable="tas", filter_subject=subjects.TOOL_OUTCOME, ack_wait_s=5, max_ack_pending=4_096
)
EVENTS_CONSUMER = ConsumerSpec(
    stream="EVENTS",
    durable="log_writer",
    filter_subject=subjects.RUN_EVENT_ALL,
    ack_wait_s=30,
    max_ack_pending=8_192,
    ack_all=True,
)
WATCHDOG_CONSUMER = ConsumerSpec(
    stream="EVENTS",
    durable="watchdog",
    filter_subject=subjects.RUN_EVENT_ALL,
    ack_wait_s=30,
    max_ack_pending=8_192,
    ack_all=True,
)
LOGS_CONSUMER = ConsumerSpec(
    stream="LOGS",
    durable="log_writer",
    filter_subject=subjects.LOG_ALL,
    ack_wait_s=30,
    max_ack_pending=4_096,
    ack_all=True,
)

CONSUMERS: tuple[ConsumerSpec, ...] = (
    TASKS_CONSUMER,
    INBOX_CONSUMER,
    TOOLREQ_CONSUMER,
    TOOLOUT_CONSUMER,
    EVENTS_CONSUMER,
    WATCHDOG_CONSUMER,
    LOGS_CONSUMER,
)
"""Consumers that exist whatever pools and toolsets there are."""


def decide_consumer(pool: str) -> ConsumerSpec:
    """The consumer that every decider of *pool* shares."""
    return ConsumerSpec(
        stream="DECIDE",
        durable=f"decide_{pool}",
        filter_subject=subjects.decide(pool),
        ack_wait_s=20,
        max_ack_pending=1_024,
    )


def agent_consumer(project: str, name: str) -> ConsumerSpec:
    """The consumer that every process of the agent *name* in *project* shares."""
    return decide_consumer(subjects.agent_pool(project, name))


def exec_consumer(project: str, toolset: str) -> ConsumerSpec:
    """The consumer that every worker of *toolset* in *project* shares.

    Neither name can hold the `=` between them, so that no two pairs share a consumer.
    """
    return ConsumerSpec(
        stream="TOOLEXEC",
        durable=f"exec_{project}={toolset}",
        filter_subject=subjects.tool_exec(project, toolset),
        ack_wait_s=20,
        max_ack_pending=1_024,
    )
