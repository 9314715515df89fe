"""Did a person say so? Votes, keys, accepted tools and pauses, as the log itself tells of them.

Whoever owns the database can make a key, put a vote or an acceptance into a table or take a pause away, and undo it
later. What was done meanwhile stays in the log, and doesn't fit: a vote by a key that nobody made, a tool that waits
for a person and is accepted, a call that was let go under a pause. What may be told by an entry that a bundle doesn't
include is no fault: of what came before its first leaf, after the time it was asked for, or within the last minute.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import Any, NamedTuple

from towpath_audit.entries import AuditLogEntry, ErasablePayload
from towpath_audit.notes import read_time, write_time
from towpath_audit.sealed_erasures import read_detail

SEALED_WITHIN = timedelta(minutes=1)
"""What a table tells may be so much newer than the log; a key's revocation may take as long to be known everywhere."""

LONGEST_EXPORT = timedelta(days=1)
"""Tables may have been read so long after the time that a bundle begins with."""

KEY_CREATED, KEY_REVOKED = "key.created", "key.revoked"
TOOL_PROPOSED = "tool.proposed"
TOOL_DECIDED = frozenset({"tool.accepted", "tool.refused"})
PAUSED, RESUMED = "switch.paused", "switch.resumed"
LET_GO = frozenset({("decision", "allow"), ("dispatch", "again"), ("dispatch", "repeated"), ("claim", "granted")})
"""Entries that no call has while a pause holds it; an approval may be used up then, and its call waits all the same."""

MAX_MATCHED = 2_000_000
"""Comparisons of calls with the names of pauses in one bundle: some seconds of work."""

MAX_NAME = 512

ASKED = ("decision", "require_approval")
"""Entries that ask people: whoever answers needs the role that they name. Who is asked later has a question anew."""

VOTES = frozenset({"approval.vote", "approval.approved", "approval.denied", "approval.edited"})


OPERATED = ("budget.set", "budget.lifted", "dead_letter.requeued", "dead_letter.discarded", "worker.drained")
"""Entries about limits, dead letters and workers, which are an operator's."""

WORDS = frozenset({"settled", "outcome", "gate.resolved"})
"""Entries of a person's word at a gate that is no approval; outcomes have a key only where a person has stated them."""

SPEAKERS = frozenset({"operator", "approver"})
"""One of these roles speaks there, or who has every scope of a project."""

EVERY_SCOPE = frozenset(
    {
        *("runs:read", "runs:write", "runs:operate", "networks:read", "networks:write", "gates:read", "gates:resolve"),
        *("audit:read", "policy:read", "policy:write", "keys:admin"),
    }
)
"""The scopes of the first release; whoever had every scope later had these too."""


class EntryPlace(NamedTuple):
    """An entry, and where it stands."""

    entry: AuditLogEntry
    leaf: int
    line: int


class PersonFault(NamedTuple):
    """What is wrong at an entry."""

    code: str
    message: str
    place: EntryPlace


SCOPE_OF = (
    dict.fromkeys((*VOTES, *WORDS, "gate.delegated"), "gates:resolve")
    | dict.fromkeys((KEY_CREATED, KEY_REVOKED), "keys:admin")
    | dict.fromkeys(("audit.erase_requested", "audit.erase_confirmed", "audit.erase_withdrawn"), "audit:erase")
    | dict.fromkeys(("policy.applied", *TOOL_DECIDED, "tool.withdrawn", "tool.reinstated"), "policy:write")
    | dict.fromkeys((PAUSED, RESUMED, "run.paused", "run.resumed", *OPERATED), "runs:operate")
    | dict.fromkeys(("run.note_given", "run.gate_requested", "run.confidence_requested"), "runs:write")
    | dict.fromkeys(("run.cancel_requested", "run.forked", "run.labelled"), "runs:write")
    | {"network.published": "networks:write"}
)
"""What the key has to allow that an entry was made with, by phase."""

ROLE_OF = dict.fromkeys((*TOOL_DECIDED, "tool.withdrawn", "tool.reinstated"), "policy_admin") | dict.fromkeys(
    (PAUSED, RESUMED, *OPERATED), "operator"
)
"""And which role it has to have; that of a vote is the one that people were asked in."""


class _Vote(NamedTuple):
    place: EntryPlace
    key: str
    approval: object = None
    commitment: object = None
    made: "_MadeKey | None" = None


class _MadeKey(NamedTuple):
    """A key as the entry says that made it: for whom, until when it counts, and what it allows; None if not known."""

    entry_id: int
    project: str
    caller: object
    expires_at: str | None = None
    roles: frozenset[str] | None = None
    scopes: frozenset[str] | None = None
    commitment: object = None


class _Pause(NamedTuple):
    """The entry that began a pause, and the one that ended it."""

    paused: int
    resumed: int | None = None

    def held(self, entry_id: int) -> bool:
        return self.paused < entry_id and (self.resumed is None or entry_id < self.resumed)


_paused = attrgetter("paused")


@dataclass
class SealedPersons:
    """Receives entries in the order of the log, and what tables say of some; `finish` returns the faults.

    *exported_at* is when the tables were read. *partial*: the log began before the bundle. *until*: what is later is
    hidden, but for entries about the log itself. Not *sealed*: what came last may have no leaf yet.
    """

    exported_at: str = ""
    partial: bool = False
    until: str | None = None
    sealed: bool = True
    keys: dict[str, _MadeKey] = field(default_factory=dict)
    revoked: dict[str, str] = field(default_factory=dict)
    by_key: list[_Vote] = field(default_factory=list)
    unseen_keys: int = 0
    asked_roles: dict[str, str] = field(default_factory=dict)
    voted: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    stored_votes: dict[str, tuple[EntryPlace, Any]] = field(default_factory=dict)
    waiting: dict[tuple[str, str, object], tuple[EntryPlace, Any]] = field(default_factory=dict)
    pauses: dict[tuple[str, str, str], list[_Pause]] = field(default_factory=dict)
    under_pause: list[EntryPlace] = field(default_factory=list)
    let_go: int = 0
    erased_pauses: int = 0
    matched: int = 0
    unmatched: int = 0

    def on_entry(self, place: EntryPlace, payload: ErasablePayload | None, found: Any = None) -> None:
        """Add an entry, and what is stored of it where that is told."""
        entry = place.entry
        detail = read_detail(payload)
        key, made = detail.get("by_key"), _made_key(entry, detail) if entry.phase == KEY_CREATED else None
        if isinstance(key, str) and (key or detail.get("by_commitment")):
            self.by_key.append(_Vote(place, key, detail.get("approval_id"), detail.get("by_commitment"), made))
        if made is not None:
            self.keys[str(detail.get("key"))] = made
        elif entry.phase == KEY_REVOKED:
            self.revoked.setdefault(str(detail.get("key")), entry.at)  # a key ends once, whatever a table says later
        elif entry.phase in VOTES and entry.execution_id is not None:
            self.voted.setdefault(entry.execution_id, set()).add((entry.actor, entry.verdict))
        elif entry.phase in {PAUSED, RESUMED}:
            self._on_switch(entry, detail, is_erased=payload is None)
        elif entry.phase == TOOL_PROPOSED or entry.phase in TOOL_DECIDED:
            self._on_tool(place, detail, found)
        elif (entry.phase, entry.verdict) in LET_GO:
            self.let_go += 1
            self._on_let_go(place)
        elif (entry.phase, entry.verdict) == ASKED and isinstance(detail.get("role"), str):
            self.asked_roles.setdefault(str(detail.get("approval_id")), detail["role"])
        if entry.execution_id is not None and isinstance(found, dict) and isinstance(found.get("votes"), list):
            self.stored_votes[entry.execution_id] = place, found["votes"]

    def finish(self) -> Iterator[PersonFault]:
        """Return what doesn't fit; keys that were made before the bundle are counted only."""
        yield from self._keys_unknown()
        for place in self.under_pause:
            message = f"call {place.entry.execution_id} was let go while a pause held it"
            yield PersonFault("call_under_pause", message, place)
        if self.until is not None or not self.sealed:
            return
        for place, found in self.waiting.values():
            if not self.is_new(found.get("decided_at")):
                message = "status: the tool waited for a person, and no entry says that one decided"
                yield PersonFault("stored_changed", message, place)
        if not self.partial:
            yield from self._votes_unsaid()

    def notes(self) -> Iterator[str]:
        """Yield what can't be told of what the entries rest on."""
        if self.unseen_keys:
            said = f"entries by keys that were made before what this bundle shows: {self.unseen_keys}"
            yield f"{said}; it can't be told for whom"
        if not self.sealed:
            said = "the log could not be sealed when this was exported, so entries may be missing at its end"
            yield f"{said}: votes and tools that only tables tell of are not held against it"
        if self.unmatched:
            yield f"{self.unmatched} calls were not held against pauses: there are too many to be compared"
        if self.erased_pauses:
            said = f"{self.erased_pauses} pauses of networks, callers or projects are erased"
            yield f"{said}: it can't be told which calls they held"
        if self.partial and self.let_go:
            yield "calls were not held against pauses that began before what this bundle shows"

    def _keys_unknown(self) -> Iterator[PersonFault]:
        for vote in self.by_key:
            place, key = vote.place, vote.key
            made = self.keys.get(key)
            if made is None and key and (self.partial or (self.until is not None and place.entry.at > self.until)):
                self.unseen_keys += 1
                continue
            what = f"{place.entry.phase} is by key {key or 'without a name'}"
            if made is None or made.entry_id > place.entry.entry_id:
                yield PersonFault("key_unmade", f"{what}, and no entry before it makes that key", place)
            elif made.caller != place.entry.actor:
                yield PersonFault("key_unmade", f"{what}, which was made for somebody else", place)
            elif made.project != place.entry.project:
                yield PersonFault("key_unmade", f"{what}, which was made for project {made.project!r}", place)
            elif None not in (made.commitment, vote.commitment) and made.commitment != vote.commitment:
                yield PersonFault("key_unmade", f"{what}, whose secret was another than it was made with", place)
            elif key in self.revoked and place.entry.at > later(self.revoked[key], SEALED_WITHIN):
                yield PersonFault("key_unmade", f"{what}, which was revoked before", place)
            elif made.expires_at is not None and place.entry.at > later(made.expires_at, SEALED_WITHIN):
                yield PersonFault("key_unmade", f"{what}, which had expired before", place)
            elif (lacks := self._lacks(vote, made)) is not None:
                yield PersonFault("key_without_right", f"{what}, which was made without the {lacks}", place)

    def _lacks(self, vote: _Vote, made: _MadeKey) -> str | None:
        """Return the role or scope that the key never had, which what was done with it takes."""
        phase = vote.place.entry.phase
        scope = SCOPE_OF.get(phase)
        if scope is not None and made.scopes is not None and scope not in made.scopes:
            return f"scope {scope}"
        role = self.asked_roles.get(str(vote.approval)) if phase in VOTES else ROLE_OF.get(phase)
        if role is not None and made.roles is not None and role not in made.roles:
            return f"role {role}"
        if phase in WORDS and not (made.roles is None or made.scopes is None or _speaks(made.roles, made.scopes)):
            return "role operator"
        return None if vote.made is None else _lacks_of(vote.made, made)

    def _votes_unsaid(self) -> Iterator[PersonFault]:
        for execution_id, (place, votes) in self.stored_votes.items():
            for vote in votes:
                actor, verdict, at = vote if isinstance(vote, list) and len(vote) == 3 else ("", "", "")
                if not (isinstance(actor, str) and isinstance(verdict, str)):
                    actor = verdict = ""
                if (actor, verdict) not in self.voted.get(execution_id, ()) and not self.is_new(at):
                    message = f"a vote of {actor!r} ({verdict}) is stored, and no entry tells of it"
                    yield PersonFault("vote_without_entry", message, place)

    def _on_switch(self, entry: AuditLogEntry, detail: dict[str, Any], *, is_erased: bool) -> None:
        """Keep a pause, or end one; of one whose details are erased the entry itself still names the tool."""
        switch = (entry.project, str(detail.get("kind")), str(detail.get("name")))
        if is_erased:
            switch = (entry.project, "tool", entry.tool)
            if not entry.tool:
                self.erased_pauses += entry.phase == PAUSED
                return
        if len(switch[2]) > MAX_NAME:
            return  # no switch of a platform has such a name
        spans = self.pauses.setdefault(switch, [])  # all are kept: within a seal the entries of calls come last
        if entry.phase == PAUSED:
            spans.append(_Pause(entry.entry_id))
        elif spans and spans[-1].resumed is None:
            spans[-1] = spans[-1]._replace(resumed=entry.entry_id)

    def _on_let_go(self, place: EntryPlace) -> None:
        entry = place.entry
        if self.matched + len(self.pauses) > MAX_MATCHED:
            self.unmatched += 1
            return
        self.matched += len(self.pauses)
        for (project, kind, name), pauses in self.pauses.items():
            values = {"project": project, "tool": entry.tool, "network": entry.network, "caller": entry.caller}
            named = kind == "project" or (kind in values and fnmatchcase(values[kind], name))
            if project == entry.project and named and _is_held(pauses, entry.entry_id):
                self.under_pause.append(place)
                return

    def _on_tool(self, place: EntryPlace, detail: dict[str, Any], found: Any) -> None:
        version = detail.get("version")
        tool = (place.entry.project, place.entry.tool, version if type(version) is int else -1)
        if place.entry.phase in TOOL_DECIDED:
            self.waiting.pop(tool, None)
        elif isinstance(found, dict) and found.get("status") not in (None, "pending"):
            self.waiting[tool] = place, found

    def may_be_untold(self, at: object) -> bool:
        """Return whether the entry about something that a table dates *at* may be one that the bundle has not."""
        return self.until is not None or not self.sealed or self.is_new(at)

    def is_new(self, at: object) -> bool:
        """Return whether the entry about something that a table dates *at* may not have been sealed yet."""
        if not isinstance(at, str):
            return False
        return later(self.exported_at, -SEALED_WITHIN) <= at <= later(self.exported_at, LONGEST_EXPORT)


def _speaks(roles: frozenset[str], scopes: frozenset[str]) -> bool:
    """Return whether a key with these rights counts at gates that are no approvals."""
    return not roles.isdisjoint(SPEAKERS) or scopes.issuperset(EVERY_SCOPE)


def _lacks_of(given: _MadeKey, made: _MadeKey) -> str | None:
    """Return a scope or role that a key was given by one which was made without it: nobody gives on what they lack."""
    for what, of_given, of_made in (("scope", given.scopes, made.scopes), ("role", given.roles, made.roles)):
        more = sorted((of_given or frozenset()) - (frozenset() if of_made is None else of_made))
        if of_made is not None and more:
            return f"{what} {more[0]}"
    return None


def _is_held(pauses: list[_Pause], entry_id: int) -> bool:
    """Return whether one of the pauses of a switch, in the order of the log, holds a call at an entry."""
    before = bisect_left(pauses, entry_id, key=_paused)
    return before > 0 and pauses[before - 1].held(entry_id)


def _made_key(entry: AuditLogEntry, detail: dict[str, Any]) -> _MadeKey:
    """Return the key that an entry made, as far as its details tell."""
    expires = detail.get("expires_at")
    roles, scopes = (
        frozenset(map(str, given)) if isinstance(given, list) else None
        for given in (detail.get("roles"), detail.get("scopes"))
    )
    until = _utc(expires) if isinstance(expires, str) else None
    caller, commitment = detail.get("caller"), detail.get("commitment")
    return _MadeKey(entry.entry_id, entry.project, caller, until, roles, scopes, commitment)


def _utc(at: str) -> str:
    """Return a time of Postgres as the log writes times; a text that is no time stays as it is."""
    try:
        return write_time(datetime.fromisoformat(at))
    except (ValueError, OverflowError):
        return at


def later(time: str, by: timedelta) -> str:
    """Return *time*, as the log writes times, moved by *by*; nothing is later than a text that is no time."""
    try:
        return write_time(read_time(time) + by)
    except (ValueError, OverflowError):
        return "~"
