"""Did people let a call go? An approval that was used up rests on sealed votes, whatever tables say of it.

`approval.consumed` needs before it an entry that asked for the approval, and votes about what was asked from as many
people as it asked for; a no among them lets nothing go. It is used up once, and who is asked anew is asked in the same
role, unless the approval was escalated. Whose run asks is none of these, unless the vote says that the
platform is for a single person. A call that waits for people is let go by nothing else: a later decision to allow it (a
switch that held it was released) needs its approval to be used up. Of entries whose details are erased only their own
fields are known, and these are taken to fit.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from towpath_audit.entries import AuditLogEntry, ErasablePayload
from towpath_audit.sealed_erasures import Detail, read_detail

ASKED = ("decision", "require_approval")
CONSUMED = ("approval.consumed", "allow")
YES = frozenset({("approval.vote", "approved"), ("approval.approved", "approved"), ("approval.edited", "edited")})
NO = "approval.denied"
ESCALATED = "approval.escalated"

ALIASES = frozenset({"local", "anonymous"})
"""Who has the token of a platform without keys, and who needs none there: the same person."""

NOBODY_ASKED = "no entry before it asks for that approval"

MAX_COMPARED = 500_000
"""Comparisons for the approvals of one call: a bundle with thousands of them shows no honest call, and must not keep a
verifier busy for long."""


@dataclass(frozen=True, slots=True)
class _Word:
    """One entry about an approval: None for what an erased payload said. *alone*: it may be by whose run asks."""

    entry_id: int
    actor: str
    caller: str
    approval: str | None
    digest: str | None
    quorum: int | None = None
    alone: bool = False
    role: str | None = None

    def is_by(self, caller: str) -> bool:
        """Return whether it is by the person whose run asks, which a vote must not be."""
        return not self.alone and (self.actor == caller or {self.actor, caller} == ALIASES)

    def is_of(self, approval: str | None, digest: str | None) -> bool:
        return _fit(self.approval, approval) and _fit(self.digest, digest)


@dataclass(slots=True)
class _Call:
    """What the log says of the approvals of one call, and the decisions to allow it."""

    asked: list[_Word] = field(default_factory=list)
    yes: list[_Word] = field(default_factory=list)
    no: list[_Word] = field(default_factory=list)
    consumed: dict[int, _Word] = field(default_factory=dict)
    escalated: set[str | None] = field(default_factory=set)
    used: set[str | None] = field(default_factory=set)
    allowed: dict[int, AuditLogEntry] = field(default_factory=dict)
    compared: int = 0

    def is_too_long(self) -> bool:
        """Count the comparisons of one more approval that is used up; return whether they are too many."""
        self.compared += len(self.asked) + len(self.yes) + len(self.no)
        return self.compared > MAX_COMPARED


@dataclass
class SealedApprovals:
    """Receives the entries of calls in the order of the log."""

    calls: dict[str, _Call] = field(default_factory=dict)

    def on_entry(self, entry: AuditLogEntry, payload: ErasablePayload | None) -> str | None:
        """Add an entry; return why it may not let its call go, if it is one that does so by an approval."""
        kind = (entry.phase, entry.verdict)
        if entry.execution_id is None or not (kind[0] == "decision" or kind[0].startswith("approval.")):
            return None
        if kind == ("decision", "allow") and entry.execution_id not in self.calls:
            return None  # nobody was asked about it: most calls are such
        call = self.calls.setdefault(entry.execution_id, _Call())
        word = _word(entry, payload)
        if kind == ASKED:
            call.asked.append(word)
        elif kind in YES and _counts(payload):
            call.yes.append(word)
        elif entry.phase == NO:
            call.no.append(word)
        elif entry.phase == ESCALATED:
            call.escalated.add(word.approval)
        elif kind == ("decision", "allow"):
            call.allowed[entry.entry_id] = entry
        elif kind == CONSUMED and entry.entry_id not in call.consumed:
            call.consumed[entry.entry_id] = word
            why = "its approvals are too many to be compared" if call.is_too_long() else _why_not(call, word)
            call.used |= {word.approval} - {None}
            return why
        return None

    def let_go_unasked(self) -> Iterator[AuditLogEntry]:
        """Return the decisions to allow a call that waited for people then.

        Within a seal the decisions of a call stand before its approvals, so the ids tell what came first.
        """
        for call in self.calls.values():
            asked, consumed = sorted(one.entry_id for one in call.asked), sorted(call.consumed)
            for entry_id, entry in call.allowed.items():
                before = bisect_left(asked, entry_id)
                if before and bisect_left(consumed, asked[before - 1] + 1) == bisect_left(consumed, entry_id):
                    yield entry


def _why_not(call: _Call, consumed: _Word) -> str | None:
    asked = [one for one in call.asked if one.entry_id < consumed.entry_id and _fit(one.approval, consumed.approval)]
    if not asked:
        return NOBODY_ASKED
    if consumed.approval in call.used:
        return "it was used up before"
    if _was_other_role_asked(call, consumed):
        return "people were asked in another role than before, and nothing escalated it"
    wanted = asked[-1]
    if not _fit(wanted.digest, consumed.digest):
        return "it is for something else than people were asked about"
    about = (wanted.approval or consumed.approval, wanted.digest or consumed.digest)
    if any(one.approval is not None and one.is_of(*about) for one in call.no):
        return "somebody said no to it"
    before = [one for one in call.yes if one.entry_id < consumed.entry_id and one.is_of(*about)]
    yes = {one.actor for one in before if not one.is_by(wanted.caller)} - {""}
    quorum = max([1, *(one.quorum or 1 for one in (wanted, *call.yes) if one.is_of(*about))])
    if len(yes) >= quorum:
        return None
    own = ", not counting whose run asks" if len({one.actor for one in before} - {""}) > len(yes) else ""
    return f"{len(yes)} of {quorum} people said yes to it before{own}"


def _was_other_role_asked(call: _Call, consumed: _Word) -> bool:
    """Return whether another role than before was asked on the way to an approval, though nothing was escalated."""
    asked = sorted((one for one in call.asked if one.entry_id < consumed.entry_id), key=lambda one: one.entry_id)
    return any(
        None not in (before.role, after.role) and before.role != after.role and after.approval not in call.escalated
        for before, after in pairwise(asked)
    )


def _word(entry: AuditLogEntry, payload: ErasablePayload | None) -> _Word:
    said = read_detail(payload)
    quorum = said.get("quorum")
    if quorum is None:  # a vote says how far it got: `1 of 2`
        quorum = _number(str(said.get("votes", "")).partition(" of ")[2])
    return _Word(
        entry_id=entry.entry_id,
        actor=entry.actor,
        caller=entry.caller,
        approval=_text(said, "approval_id"),
        digest=_text(said, "digest"),
        quorum=quorum if type(quorum) is int else None,
        alone=payload is None or said.get("single_person") is True,
        role=_text(said, "role"),
    )


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _counts(payload: ErasablePayload | None) -> bool:
    """Return whether a vote counts: an edit that a person has to look at by hand is nobody's yes."""
    return not str(read_detail(payload).get("votes", "")).startswith("0 ")


def _text(said: Detail, name: str) -> str | None:
    found = said.get(name)
    return found if isinstance(found, str) else None


def _fit(one: str | None, other: str | None) -> bool:
    return one is None or other is None or one == other
