"""Ways to tamper with a bundle, and where each has to be found.

`outside` ones are made by somebody without the key, on the lines as they stand; `inside` ones by whoever holds the key
and writes everything anew, so that only checkpoints that were kept elsewhere can tell. Each mutant names the place
where it has to be found: lines of the file, or leaves of the log.
"""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.tas.audit_log import Forger

from towpath_audit.bundle import serialize_line
from towpath_audit.entries import AuditLogEntry
from towpath_audit.report import AuditReport

FIELDS = (
    *("at", "project", "run_id", "execution_id", "phase", "verdict", "tool", "operation", "network", "agent_key"),
    *("caller", "actor", "rule", "policy_version", "entry_id"),
)


@dataclass(frozen=True)
class Mutant:
    """A bundle that was tampered with: what was done, the lines, and where that may be found (inclusive)."""

    what: str
    lines: list[str]
    first_line: int | None = None
    last_line: int | None = None
    leaf: int | None = None

    def found_by(self, report: AuditReport) -> bool:
        """Say whether *report* has a fault, and the first one at the right place."""
        if report.holds:
            return False
        first = report.faults[0]
        if self.leaf is not None:
            return any(
                fault.leaf is not None and fault.leaf <= self.leaf <= max(fault.leaf, fault.last_leaf or 0)
                for fault in report.faults[:5]
            )
        assert self.first_line is not None
        assert self.last_line is not None
        return first.line is not None and self.first_line <= first.line <= self.last_line


def outside(lines: Sequence[str], chance: random.Random) -> Mutant:
    """Tamper without the key."""
    made: Callable[[list[str], random.Random], Mutant] = chance.choice(
        [_edit, _edit, _drop, _swap, _insert, _duplicate, _truncate, _hash_too, _poison]
    )
    return made(list(lines), chance)


def inside(forger: Forger, chance: random.Random) -> Mutant:
    """Tamper with the key: every hash, root and signature is made anew."""
    made: Callable[[Forger, random.Random], Mutant] = chance.choice(
        [_forge_field, _forge_field, _forge_payload, _forge_drop, _forge_swap, _forge_insert, _forge_tail, _forge_cut]
    )
    return made(forger.copy(), chance)


def _edit(lines: list[str], chance: random.Random) -> Mutant:
    at = chance.randrange(len(lines))
    line = json.loads(lines[at])
    holder: Any = line
    key = chance.choice(sorted(line))
    while isinstance(holder[key], dict | list) and holder[key]:
        holder = holder[key]
        key = chance.choice(sorted(holder)) if isinstance(holder, dict) else chance.randrange(len(holder))
    old = holder[key]
    holder[key] = _other(old, chance)
    first = _page_begin(lines, at) if line["kind"] == "page" else at + 1
    lines[at] = serialize_line(line)
    return Mutant(f"edit {key} of line {at + 1}: {str(old)[:20]!r}", lines, first, at + 1)


def _hash_too(lines: list[str], chance: random.Random) -> Mutant:
    """Edit an entry and its hash, so that they fit each other."""
    at = chance.choice([place for place, line in enumerate(lines) if '"kind":"leaf"' in line])
    line, field = json.loads(lines[at]), chance.choice(FIELDS)
    line["entry"][field] = _other(line["entry"][field], chance)
    line["hash"] = AuditLogEntry.read(line["entry"]).leaf_hash().hex()
    lines[at] = serialize_line(line)
    return Mutant(f"edit {field} of line {at + 1} and its hash", lines, at + 1, at + 1)


def _drop(lines: list[str], chance: random.Random) -> Mutant:
    at = chance.randrange(len(lines))
    first = _page_begin(lines, at)
    del lines[at]
    return Mutant(f"drop line {at + 1}", lines, first, _page_end(lines, at))


def _swap(lines: list[str], chance: random.Random) -> Mutant:
    one, two = sorted(chance.sample(range(len(lines)), 2))
    first = _page_begin(lines, one)
    lines[one], lines[two] = lines[two], lines[one]
    return Mutant(f"swap lines {one + 1} and {two + 1}", lines, first, _page_end(lines, two))


def _insert(lines: list[str], chance: random.Random) -> Mutant:
    at = chance.randrange(len(lines) + 1)
    line = json.loads(chance.choice(lines))
    first = _page_begin(lines, at)
    lines.insert(at, serialize_line({**line, "more": 1}))
    return Mutant(f"insert a line before {at + 1}", lines, first, _page_end(lines, at))


def _duplicate(lines: list[str], chance: random.Random) -> Mutant:
    at = chance.randrange(len(lines))
    first = _page_begin(lines, at)
    lines.insert(at, lines[at])
    return Mutant(f"duplicate line {at + 1}", lines, first, _page_end(lines, at + 1))


def _truncate(lines: list[str], chance: random.Random) -> Mutant:
    at = chance.randrange(1, len(lines))
    return Mutant(f"truncate after line {at}", lines[:at], _page_begin(lines, at - 1), at)


def _forge_field(forger: Forger, chance: random.Random) -> Mutant:
    place, leaf = _some_leaf(forger, chance)
    entry = forger.body[place]["entry"]
    field = chance.choice(FIELDS)
    entry[field] = _other(entry[field], chance)
    return Mutant(f"forge {field} of leaf {leaf}", forger.lines(), leaf=leaf)


def _forge_payload(forger: Forger, chance: random.Random) -> Mutant:
    place, leaf = _some_leaf(forger, chance)
    payload = forger.body[place]["payload"]
    field = chance.choice(["args_digest", "detail"])
    payload[field] = _other(payload[field], chance)
    return Mutant(f"forge {field} of leaf {leaf}", forger.lines(), leaf=leaf)


def _forge_drop(forger: Forger, chance: random.Random) -> Mutant:
    place, leaf = _some_leaf(forger, chance)
    del forger.body[place]
    return Mutant(f"drop leaf {leaf}, all made anew", forger.lines(), leaf=leaf)


def _forge_swap(forger: Forger, chance: random.Random) -> Mutant:
    one, two = sorted(chance.sample(forger.leaves(), 2))
    leaf = forger.body[one]["leaf"]
    forger.body[one], forger.body[two] = forger.body[two], forger.body[one]
    return Mutant(f"swap leaf {leaf} with another, all made anew", forger.lines(), leaf=leaf)


def _forge_insert(forger: Forger, chance: random.Random) -> Mutant:
    place, leaf = _some_leaf(forger, chance)
    another = json.loads(json.dumps(forger.body[place]))
    another["entry"]["entry_id"] += 1_000_000
    forger.body.insert(place, another)
    return Mutant(f"insert before leaf {leaf}, all made anew", forger.lines(), leaf=leaf)


def _forge_tail(forger: Forger, chance: random.Random) -> Mutant:
    """Roll back to leaf n and go on otherwise, with as many leaves as there were."""
    place, leaf = _some_leaf(forger, chance)
    for at in forger.leaves():
        if at >= place:
            forger.body[at]["entry"]["actor"] = "somebody else"
    return Mutant(f"rewrite everything from leaf {leaf} on", forger.lines(), leaf=leaf)


def _forge_cut(forger: Forger, chance: random.Random) -> Mutant:
    """Roll back to an old checkpoint."""
    seals = [place for place, line in enumerate(forger.body) if line["kind"] == "checkpoint"]
    cut = chance.choice(seals[:-2])
    leaf = max(line["leaf"] for line in forger.body[:cut] if line["kind"] == "leaf") + 1
    forger.body = [*forger.body[: cut + 1], *(line for line in forger.body[cut:] if line["kind"] == "effect")]
    known = {line["entry"]["execution_id"] for line in forger.body if line["kind"] == "leaf"}
    forger.body = [line for line in forger.body if line["kind"] != "effect" or line["execution_id"] in known]
    return Mutant(f"roll back to {leaf} leaves", forger.lines(), leaf=leaf)


def _some_leaf(forger: Forger, chance: random.Random) -> tuple[int, int]:
    place = chance.choice(forger.leaves())
    return place, forger.body[place]["leaf"]


POISON = (float("inf"), float("nan"), 1e308, True, json.loads("[" * 300 + "]" * 300), {"x": []}, "[" * 200_000)
"""Values that programs stumble over."""


def _poison(lines: list[str], chance: random.Random) -> Mutant:
    at = chance.choice([0, chance.randrange(len(lines))])
    line = json.loads(lines[at])
    key = chance.choice(sorted(line))
    value = chance.choice([one for one in POISON if one is not line[key]])
    first = _page_begin(lines, at) if line["kind"] == "page" else at + 1
    lines[at] = serialize_line({**line, key: value})
    return Mutant(f"poison {key} of line {at + 1} with {str(value)[:20]}", lines, first, _page_end(lines, at))


def _page_begin(lines: Sequence[str], at: int) -> int:
    """The first line of the page that line *at* belongs to."""
    ends = [place + 1 for place, line in enumerate(lines[:at]) if '"kind":"page"' in line]
    return ends[-1] + 1 if ends else 1


def _page_end(lines: Sequence[str], at: int) -> int:
    """The line that ends the page after the one of *at*: a line that is off shows there at the latest."""
    ends = [place + 1 for place, line in enumerate(lines) if '"kind":"page"' in line and place >= at]
    return ends[1] if len(ends) > 1 else len(lines)


def _other(old: Any, chance: random.Random) -> Any:
    if isinstance(old, bool) or old is None:
        return "x" if old is None else not old
    if isinstance(old, int):
        return old + chance.choice([-1, 1, 1_000])
    if isinstance(old, str) and old:
        at = chance.randrange(len(old))
        return old[:at] + ("0" if old[at] != "0" else "1") + old[at + 1 :]
    return "x" if isinstance(old, str) else ["x"]
