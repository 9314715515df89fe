"""Tells of runs that wait for a person, and of those that ended badly: one line each, with the command that helps.

The lines come from one subscription to the events that the orchestrators publish, as the gateway's: nothing is polled,
and what was published while the broker was down is not told. Most messages are put aside by a look for two words; what
a slow terminal can't take is dropped by the client of the broker. Texts are others', so they are made safe to print.
"""

import asyncio
import json
import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Any, NamedTuple
from uuid import UUID

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from towpath.cli.shared.text import call_in_words, cut_words, one_line
from towpath_contracts import subjects
from towpath_contracts.runs.run_control import NO_QUESTIONS
from towpath_embedded.terminal.notice_limit import NoticeLimit, ShowLine
from towpath_fabric.nats.broker_owner import connect

_log = logging.getLogger(__name__)

MOST_RUNS = 10_000
"""Runs whose network, and whether they are children, is kept for the line of their end."""

MOST_PENDING = 10_000
"""Messages that wait to be looked at; the broker's client drops what comes beyond that."""

ARGS_WIDTH = 60
MESSAGE_WIDTH = 100
RECONNECT_S = 0.5

MORE = {
    "waits": ("run waits for a person: towpath gates list", "runs wait for a person: towpath gates list"),
    "failed": ("run did not complete: towpath runs list", "runs did not complete: towpath runs list"),
}
"""What is said of the one that is left out in a flood, and of several."""

_WORDS = (b'"run_created"', b'"gate_opened"', b'"run_finished"', b'"run_quarantined"')
_UNTOLD = ("completed", "cancelled")


class RunNotice(NamedTuple):
    """One line of a run, of the kind that limits how many of its like are shown."""

    kind: str
    line: str
    style: str


class RunNoticeReader:
    """Makes lines of the events of runs; remembers of each run only its network, and those that are children."""

    def __init__(self) -> None:
        self._networks: OrderedDict[str, str] = OrderedDict()

    def read(self, data: bytes) -> list[RunNotice]:
        """Return the lines for one message of `run.event.*`; none for what matters to nobody or can't be read."""
        if not any(word in data for word in _WORDS):
            return []
        try:
            message = json.loads(data)
            run_id = str(UUID(message["run_id"]))
            events = [entry["event"] for entry in message["entries"]]
            # An approval that changes the call opens another gate and closes it at once: nobody is waited for.
            closed = {event["gate_id"] for event in events if event["type"] == "gate_closed"}
            told = [self._notice(run_id, event) for event in events if not _is_passed(event, closed)]
        except (ValueError, KeyError, TypeError, AttributeError):
            return []
        return [notice for notice in told if notice is not None]

    def _notice(self, run_id: str, event: dict[str, Any]) -> RunNotice | None:
        named, what = self._named(run_id), event["type"]
        if what == "run_created":
            self._remember(run_id, "" if event.get("parent") else one_line(event["network"], ARGS_WIDTH))
        elif what == "gate_opened" and event["gate_type"] not in NO_QUESTIONS:
            return RunNotice("waits", waits_line(named, event), "yellow")
        elif what == "run_finished":
            is_child = self._networks.pop(run_id, None) == ""
            if event["status"] not in _UNTOLD and not is_child:  # the run above it tells what comes of that
                why = _why(event["reason"], event.get("final"))
                return RunNotice("failed", ended_line(named, event["status"], why), "red")
        elif what == "run_quarantined":
            return RunNotice("failed", ended_line(named, "is parked", f"{event['code']}: {event['message']}"), "red")
        return None

    def _named(self, run_id: str) -> str:
        """Return the end of a run's id, as commands take it, and its network, if that is known.

        The beginning of the id is a time, which many have in common.
        """
        return f"{run_id.rpartition('-')[2]} {self._networks.get(run_id, '')}".rstrip()

    def _remember(self, run_id: str, network: str) -> None:
        self._networks[run_id] = network
        if len(self._networks) > MOST_RUNS:
            self._networks.popitem(last=False)


def _is_passed(event: dict[str, Any], closed: Collection[str]) -> bool:
    return event["type"] == "gate_opened" and event["gate_id"] in closed


def waits_line(run: str, event: dict[str, Any]) -> str:
    """Return the line for a gate: what waits, why, and how to decide."""
    detail = event.get("detail") or {}
    gate = str(UUID(event["gate_id"]))[:8]
    what = call_in_words(detail, ARGS_WIDTH) if detail.get("tool") else cut_words(event["reason"], ARGS_WIDTH)
    decide = f"towpath gates approve {gate}" if event.get("approval_id") else f"towpath gates show {gate}"
    return f"◐ run {run} waits: {what} · {decide}"


def ended_line(run: str, status: str, why: str) -> str:
    """Return the line for a run that did not complete."""
    told = one_line(status.replace("_", " "), ARGS_WIDTH)
    return f"✕ run {run} {told}: {one_line(why, MESSAGE_WIDTH)} · towpath runs show {run.partition(' ')[0]}"


def _why(reason: object, final: object) -> str:
    """Return why a run ended: the word for it, and what its error says."""
    said = final.get("message") or final.get("detail") if isinstance(final, dict) else None
    return f"{reason}: {said}" if said and said != reason else str(reason)


class RunNotices:
    """The lines of all runs from `start` to `stop`; *heard* is called for every message, also where it gives none."""

    def __init__(self, nats_url: str, show: ShowLine, heard: Callable[[], None]) -> None:
        self._nats_url = nats_url
        self._heard = heard
        self._limit = NoticeLimit(show, MORE)
        self._reader = RunNoticeReader()
        self._nats: Client | None = None

    async def start(self) -> None:
        """Subscribe; a broker that is away now is waited for by the client."""
        self._nats = await connect(
            self._nats_url,
            owner=os.geteuid(),
            name="towpath up",
            inbox_prefix=b"_INBOX_gateway",
            max_reconnect_attempts=-1,
            reconnect_time_wait=RECONNECT_S,
            error_cb=_log_error,
        )
        await self._nats.subscribe(subjects.RUN_EVENT_ALL, cb=self._on_message, pending_msgs_limit=MOST_PENDING)

    async def stop(self) -> None:
        """Unsubscribe, and tell what was left out."""
        if self._nats is not None:
            try:
                await self._nats.close()
            except (NatsError, OSError, asyncio.InvalidStateError) as error:
                _log.debug("nats: %s", error)
        self._limit.close()

    async def _on_message(self, message: Msg) -> None:
        self._heard()
        for notice in self._reader.read(message.data):
            self._limit.tell(notice.kind, notice.line, notice.style)


async def _log_error(error: Exception) -> None:
    """nats-py would log an error with a traceback; that a broker was restarted is told by who restarts it."""
    _log.debug("nats: %s", error)
