"""The logs of a run and everything below it as one stream, and where a reader of it stands.

The events of each run come in order and once, after the `child_started` that began it; a `child_ended` comes after
all that the log of the child holds, and for a parked child, which may never end, after what it had logged by then. What
such a child, or one below a child that ended, logs later is sent too. What was sent up to a cursor is never sent
again, and nothing else is left out.
"""

import base64
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from pydantic import Field

from towpath_contracts.events.log import (
    CancelAccepted,
    ChildEnded,
    ChildStarted,
    LogEntry,
    RunFinished,
    RunQuarantined,
)
from towpath_contracts.runs.children import ChildTask

MAX_FOLLOWED = 500
"""Runs of a tree that are followed: as many as a tree may show. Others appear in their parents' logs only."""

PARKED = "quarantined"
MAX_CURSOR_CHARS = 32 * 1024
_RUN = re.compile(r"([A-Za-z0-9_-]{22})\.(\d{1,15})")


class TreeEntry(LogEntry):
    """An event of one run of a tree; `path` names the child runs that lead to it from the top."""

    run_id: UUID
    path: tuple[str, ...] = Field(default=())


def child_name(task: ChildTask) -> str:
    """Return what a child run is called in a path: its swarm, `plan` where it is one, else its agent."""
    if task.swarm is not None and task.swarm.name:
        return task.swarm.name
    return "plan" if task.plan is not None else task.agent_key


def write_cursor(sent: Mapping[UUID, int]) -> str:
    """Return *sent*, the last seq of each run that goes on, as the id of an event."""
    return "~".join(f"{base64.urlsafe_b64encode(run.bytes).decode()[:22]}.{seq}" for run, seq in sent.items())


def read_cursor(text: str) -> dict[UUID, int]:
    """Return what `write_cursor` wrote; raises ValueError for anything else."""
    runs = text.split("~") if len(text) <= MAX_CURSOR_CHARS else [""]
    sent: dict[UUID, int] = {}
    for one in runs:
        match = _RUN.fullmatch(one)
        if match is None:
            msg = "this is not the id of an event of this stream"
            raise ValueError(msg)
        sent[UUID(bytes=base64.urlsafe_b64decode(match[1] + "=="))] = int(match[2])
    return sent


@dataclass(slots=True, kw_only=True)
class FollowedRun:
    """One run that is followed.

    `open` are its children that were begun and whose end was not sent, `late` those of which, or of whose children,
    something may come after that end. `parked` is None until the run's log or its parent's shows it.
    """

    run_id: UUID
    path: tuple[str, ...]
    parent: UUID | None
    sent: int
    seq: int = 0
    ended: bool = False
    parked: bool | None = None
    open: dict[UUID, str] = field(default_factory=dict)
    late: dict[UUID, str] = field(default_factory=dict)
    held: deque[LogEntry] = field(default_factory=deque)

    @property
    def passed(self) -> int:
        """The seq up to which nothing is held."""
        return self.held[0].seq - 1 if self.held else self.seq

    @property
    def is_sent(self) -> bool:
        """Whether all of its log was sent."""
        return self.ended and not self.held


class TreeStream:
    """Merges logs: give it each run's entries from the first on, in order; `runs` names the runs to read.

    *sent* is where a reader stood before, by `read_cursor`; what it holds is read again, and not sent.
    """

    def __init__(self, root: UUID, sent: Mapping[UUID, int] | None = None) -> None:
        self._before = dict(sent or {})
        self._members: dict[UUID, FollowedRun] = {}
        self._follow(root, None, ())

    @property
    def runs(self) -> tuple[UUID, ...]:
        """The runs to read, in the order in which they were begun."""
        return tuple(self._members)

    def path(self, run_id: UUID) -> tuple[str, ...]:
        """Return the names that lead from the top to that run."""
        return self._members[run_id].path

    @property
    def cursor(self) -> str:
        """Where a reader stands that got everything so far."""
        return write_cursor({one.run_id: one.sent for one in self._members.values() if self._is_open(one)})

    def has_ended(self, run_id: UUID) -> bool:
        """Whether nothing more is to be read of that run."""
        return self._members[run_id].ended

    def is_held(self, run_id: UUID) -> bool:
        """Whether a run waits for a child to be sent: reading more of it now would only fill memory."""
        return bool(self._members[run_id].held)

    @property
    def is_over(self) -> bool:
        """Whether the run at the top has ended, and all below it have or are parked."""
        members = self._members.values()
        return all((one.ended or (one.parked and one.parent is not None)) and not one.held for one in members)

    def take(self, run_id: UUID, entry: LogEntry) -> Iterator[TreeEntry]:
        """Take the next entry of a run, and yield what is to be sent now, in order; one that was taken is dropped."""
        member = self._members[run_id]
        if entry.seq <= member.seq:
            return
        member.seq = entry.seq
        member.held.append(entry)
        yield from self._release(member)
        yield from self._release_above(member)

    def end(self, run_id: UUID) -> Iterator[TreeEntry]:
        """Read no more of a run: its log was read to the end, or is not to be had. Yield what waited for that."""
        member = self._members[run_id]
        member.ended = True
        yield from self._release_above(member)

    def _release_above(self, member: FollowedRun) -> Iterator[TreeEntry]:
        """Yield what waited for *member*, and forget it where nothing more can come of it."""
        while member.parent is not None:
            parent = self._members[member.parent]
            if member.run_id in parent.late and self._is_done(member.run_id):
                del parent.late[member.run_id]
            if parent.held:
                yield from self._release(parent)
            member = parent

    def _release(self, member: FollowedRun) -> Iterator[TreeEntry]:
        while member.held:
            entry = member.held[0]
            if entry.seq > member.sent:
                self._begin_open(member)  # whatever is sent from here on, they are still to be sent
                if self._waits(entry.event):
                    return
            member.held.popleft()
            self._note(member, entry)
            if entry.seq > member.sent:
                member.sent = entry.seq
                self._begin_open(member)
                yield TreeEntry(**dict(entry), run_id=member.run_id, path=member.path)
        if member.seq >= member.sent:
            self._begin_open(member)

    def _waits(self, event: object) -> bool:
        """Return whether *event* is the end of a child of which not everything before it has been sent."""
        child = self._members.get(event.child_id) if isinstance(event, ChildEnded) else None
        if child is None or child.is_sent or not isinstance(event, ChildEnded):
            return False
        return event.status != PARKED or child.passed < event.child_seq

    def _is_done(self, run_id: UUID) -> bool:
        """Whether nothing more can come of a run and of all below it."""
        member = self._members.get(run_id)
        return member is None or (
            member.is_sent and all(self._is_done(child) for child in (*member.open, *member.late))
        )

    def _note(self, member: FollowedRun, entry: LogEntry) -> None:
        match entry.event:
            case ChildStarted():
                member.open[entry.event.child_id] = child_name(entry.event.task)
            case ChildEnded():
                self._note_end(member, entry.event)
            case RunQuarantined():
                member.parked = True
            case CancelAccepted() | RunFinished():
                member.parked = False
            case _:
                return

    def _note_end(self, member: FollowedRun, event: ChildEnded) -> None:
        name, child = member.open.pop(event.child_id, None), self._members.get(event.child_id)
        if child is not None and child.parked is None and event.status == PARKED:
            child.parked = True
        more = event.child_id in self._before if child is None else not self._is_done(event.child_id)
        if name is not None and more:  # a cursor names a child whose end was sent only where more may come of it
            member.late[event.child_id] = name

    def _begin_open(self, member: FollowedRun) -> None:
        for child_id, name in (*member.open.items(), *member.late.items()):
            self._follow(child_id, member.run_id, (*member.path, name))

    def _follow(self, run_id: UUID, parent: UUID | None, path: tuple[str, ...]) -> None:
        if run_id not in self._members and len(self._members) < MAX_FOLLOWED:
            sent = self._before.get(run_id, 0)
            self._members[run_id] = FollowedRun(run_id=run_id, path=path, parent=parent, sent=sent)

    def _is_open(self, member: FollowedRun) -> bool:
        """Whether a reader that comes back needs to know how far this run was sent."""
        if member.parent is None:
            return True
        parent = self._members[member.parent]
        return (member.run_id in parent.open or member.run_id in parent.late) and self._is_open(parent)
